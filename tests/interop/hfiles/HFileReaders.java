import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;

/**
 * Reads HFiles with a reader of Hudi, as told line by line: "scan FILE", "find FILE KEYS" or
 * "prefix FILE KEYS". KEYS is a file of keys, each behind its length as int32, in order.
 *
 * <p>Each line is answered by the number of entries that were found, the SHA-256 of them (key and
 * value, each behind its length; a key that is not there has the length -1 for its value), and the
 * nanoseconds that it took, from opening the file on, by the clock and of the processor; or by
 * "failed" and why.
 */
public final class HFileReaders {

  /** A reader of one release. Keys of find and prefix ascend. */
  interface Engine {
    void scan(String path, Entries into) throws Exception;

    void find(String path, List<byte[]> keys, Entries into) throws Exception;

    void prefix(String path, List<byte[]> prefixes, Entries into) throws Exception;
  }

  /** Takes entries; a value of null: the key is not there. */
  interface Entries {
    void add(byte[] key, byte[] value, int valueOffset, int valueLength);
  }

  /** Counts entries and digests them. */
  static final class Digest implements Entries {
    private final MessageDigest digest;
    private long found;

    Digest() throws Exception {
      digest = MessageDigest.getInstance("SHA-256");
    }

    @Override
    public void add(byte[] key, byte[] value, int offset, int length) {
      digest.update(ByteBuffer.allocate(4).putInt(0, key.length));
      digest.update(key);
      digest.update(ByteBuffer.allocate(4).putInt(0, value == null ? -1 : length));
      if (value != null) {
        digest.update(value, offset, length);
        found++;
      }
    }

    @Override
    public String toString() {
      StringBuilder text = new StringBuilder(found + " ");
      for (byte each : digest.digest()) {
        text.append(String.format("%02x", each));
      }
      return text.toString();
    }
  }

  /** Counts entries: what is timed. */
  static final class Count implements Entries {
    private long found;

    @Override
    public void add(byte[] key, byte[] value, int offset, int length) {
      found += value == null ? 0 : 1;
    }
  }

  private HFileReaders() {
  }

  private static List<byte[]> readKeys(String path) throws Exception {
    byte[] data = Files.readAllBytes(Path.of(path));
    DataInputStream in = new DataInputStream(new ByteArrayInputStream(data));
    List<byte[]> keys = new ArrayList<>();
    while (in.available() > 0) {
      byte[] key = new byte[in.readInt()];
      in.readFully(key);
      keys.add(key);
    }
    return keys;
  }

  private static long cpuNanos() {
    return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
  }

  private static void run(
      Engine engine, String work, String path, List<byte[]> keys, Entries into) throws Exception {
    if (work.equals("scan")) {
      engine.scan(path, into);
    } else if (work.equals("find")) {
      engine.find(path, keys, into);
    } else {
      engine.prefix(path, keys, into);
    }
  }

  private static String answer(Engine engine, String[] asked) throws Exception {
    List<byte[]> keys = asked.length > 2 ? readKeys(asked[2]) : List.of();
    long started = System.nanoTime();
    long startedCpu = cpuNanos();
    run(engine, asked[0], asked[1], keys, new Count());
    long wall = System.nanoTime() - started;
    long cpu = cpuNanos() - startedCpu;
    Digest digest = new Digest();
    run(engine, asked[0], asked[1], keys, digest);
    return digest + " " + wall + " " + cpu;
  }

  public static void main(String[] arguments) throws Exception {
    Engine engine = (Engine) Class.forName(arguments[0]).getDeclaredConstructor().newInstance();
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String answer;
      try {
        answer = answer(engine, line.split(" "));
      } catch (Throwable error) {
        Throwable cause = error.getCause() == null ? error : error.getCause();
        answer = "failed " + (error + ": " + cause).replace('\n', ' ');
      }
      System.out.println("answer " + answer);
      System.out.flush();
    }
  }
}
