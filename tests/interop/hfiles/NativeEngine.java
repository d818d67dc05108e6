import java.lang.reflect.Constructor;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.io.ByteArraySeekableDataInputStream;
import org.apache.hudi.io.SeekableDataInputStream;
import org.apache.hudi.io.hfile.HFileReader;
import org.apache.hudi.io.hfile.HFileReaderImpl;
import org.apache.hudi.io.hfile.KeyValue;
import org.apache.hudi.io.hfile.UTF8StringKey;

/** Hudi's own reader, driven as HoodieNativeAvroHFileReader drives it. */
public final class NativeEngine implements HFileReaders.Engine {

  private static HFileReader open(String path) throws Exception {
    byte[] file = Files.readAllBytes(Path.of(path));
    // The class of the stream in memory is in another package since 1.1
    Constructor<?> seekable = ByteArraySeekableDataInputStream.class.getConstructors()[0];
    Object stream = seekable.getParameterTypes()[0].getConstructor(byte[].class).newInstance(file);
    HFileReader reader = new HFileReaderImpl(
        (SeekableDataInputStream) seekable.newInstance(stream), file.length);
    reader.initializeMetadata();
    return reader;
  }

  private static void add(KeyValue entry, HFileReaders.Entries into) {
    int start = entry.getKeyContentOffset();
    byte[] bytes = entry.getBytes();
    byte[] key = Arrays.copyOfRange(bytes, start, start + entry.getKeyContentLength());
    into.add(key, bytes, entry.getValueOffset(), entry.getValueLength());
  }

  @Override
  public void scan(String path, HFileReaders.Entries into) throws Exception {
    HFileReader reader = open(path);
    for (boolean more = reader.seekTo(); more; more = reader.next()) {
      add(reader.getKeyValue().get(), into);
    }
  }

  @Override
  public void find(String path, List<byte[]> keys, HFileReaders.Entries into) throws Exception {
    HFileReader reader = open(path);
    reader.seekTo();
    for (byte[] key : keys) {
      if (reader.seekTo(new UTF8StringKey(key)) == HFileReader.SEEK_TO_FOUND) {
        add(reader.getKeyValue().get(), into);
      } else {
        into.add(key, null, 0, 0);
      }
    }
  }

  private static boolean startsWith(KeyValue entry, byte[] prefix) {
    int start = entry.getKeyContentOffset();
    int length = entry.getKeyContentLength();
    return length >= prefix.length && Arrays.equals(
        entry.getBytes(), start, start + prefix.length, prefix, 0, prefix.length);
  }

  @Override
  public void prefix(String path, List<byte[]> prefixes, HFileReaders.Entries into)
      throws Exception {
    for (byte[] prefix : prefixes) {
      HFileReader reader = open(path);
      boolean more = reader.seekTo();
      if (more && reader.seekTo(new UTF8StringKey(prefix)) >= HFileReader.SEEK_TO_IN_RANGE) {
        more = reader.next();
      }
      while (more) {
        Option<KeyValue> entry = reader.getKeyValue();
        if (!entry.isPresent() || !startsWith(entry.get(), prefix)) {
          break;
        }
        add(entry.get(), into);
        more = reader.next();
      }
    }
  }
}
