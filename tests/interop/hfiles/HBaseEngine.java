import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hudi.org.apache.hadoop.hbase.Cell;
import org.apache.hudi.org.apache.hadoop.hbase.CellUtil;
import org.apache.hudi.org.apache.hadoop.hbase.KeyValue;
import org.apache.hudi.org.apache.hadoop.hbase.io.hfile.CacheConfig;
import org.apache.hudi.org.apache.hadoop.hbase.io.hfile.HFile;
import org.apache.hudi.org.apache.hadoop.hbase.io.hfile.HFileScanner;

/** HBase's reader, driven as HoodieHBaseAvroHFileReader drives it. */
public final class HBaseEngine implements HFileReaders.Engine {

  private static HFileScanner open(String path) throws Exception {
    Configuration settings = new Configuration();
    Path file = new Path(path);
    FileSystem files = FileSystem.getLocal(settings);
    HFile.Reader reader =
        HFile.createReader(files, file, new CacheConfig(settings), true, settings);
    return reader.getScanner(false, true);
  }

  private static KeyValue key(byte[] key) {
    return new KeyValue(key, null, null, null);
  }

  private static void add(Cell cell, HFileReaders.Entries into) {
    byte[] value = CellUtil.cloneValue(cell);
    into.add(CellUtil.cloneRow(cell), value, 0, value.length);
  }

  @Override
  public void scan(String path, HFileReaders.Entries into) throws Exception {
    HFileScanner scanner = open(path);
    for (boolean more = scanner.seekTo(); more; more = scanner.next()) {
      add(scanner.getCell(), into);
    }
  }

  @Override
  public void find(String path, List<byte[]> keys, HFileReaders.Entries into) throws Exception {
    HFileScanner scanner = open(path);
    boolean any = scanner.seekTo();
    for (byte[] key : keys) {
      if (any && scanner.reseekTo(key(key)) == 0) {
        add(scanner.getCell(), into);
      } else {
        into.add(key, null, 0, 0);
      }
    }
  }

  @Override
  public void prefix(String path, List<byte[]> prefixes, HFileReaders.Entries into)
      throws Exception {
    for (byte[] prefix : prefixes) {
      HFileScanner scanner = open(path);
      boolean more = scanner.seekTo();
      if (more && scanner.reseekTo(key(prefix)) == 1) {
        more = scanner.next();
      }
      while (more) {
        byte[] row = CellUtil.cloneRow(scanner.getCell());
        if (row.length < prefix.length
            || !Arrays.equals(row, 0, prefix.length, prefix, 0, prefix.length)) {
          break;
        }
        add(scanner.getCell(), into);
        more = scanner.next();
      }
    }
  }
}
