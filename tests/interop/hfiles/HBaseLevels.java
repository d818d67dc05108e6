import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hudi.org.apache.hadoop.hbase.CellComparatorImpl;
import org.apache.hudi.org.apache.hadoop.hbase.KeyValue;
import org.apache.hudi.org.apache.hadoop.hbase.io.compress.Compression;
import org.apache.hudi.org.apache.hadoop.hbase.io.hfile.CacheConfig;
import org.apache.hudi.org.apache.hadoop.hbase.io.hfile.HFile;
import org.apache.hudi.org.apache.hadoop.hbase.io.hfile.HFileContext;
import org.apache.hudi.org.apache.hadoop.hbase.io.hfile.HFileContextBuilder;

/**
 * Writes tests/format/hfile/three_levels.hfile by HBase's writer, of the bundle of Hudi 0.15.0: small
 * blocks make an index of three levels. Argument: the path of the file.
 */
public final class HBaseLevels {

  public static void main(String[] arguments) throws Exception {
    Configuration settings = new Configuration();
    settings.setInt("hfile.index.block.max.size", 128);
    settings.setInt("hfile.index.block.min.entries", 2);
    HFileContext context =
        new HFileContextBuilder()
            .withBlockSize(64)
            .withCompression(Compression.Algorithm.GZ)
            .withCellComparator(CellComparatorImpl.COMPARATOR)
            .build();
    HFile.Writer writer =
        HFile.getWriterFactory(settings, new CacheConfig(settings))
            .withPath(FileSystem.getLocal(settings), new Path(arguments[0]))
            .withFileContext(context)
            .create();
    for (int number = 0; number < 60; number++) {
      byte[] key = String.format("key-%02d", number).getBytes(StandardCharsets.UTF_8);
      byte[] value = ("v" + number).getBytes(StandardCharsets.UTF_8);
      byte[] none = new byte[0];
      writer.append(new KeyValue(key, none, none, Long.MAX_VALUE, KeyValue.Type.Put, value));
    }
    writer.close();
  }
}
