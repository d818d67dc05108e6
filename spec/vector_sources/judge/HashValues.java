package org.apache.hudi.index.bucket;

import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Prints what Hudi reads out of record keys: one JSON row per line "key TAB hash fields". */
public class HashValues {
  public static void main(String[] args) throws Exception {
    PrintStream out = new PrintStream(new FileOutputStream(args[1]), true, "UTF-8");
    ExecutorService threads = Executors.newCachedThreadPool();
    for (String line : Files.readAllLines(Paths.get(args[0]))) {
      String[] row = line.split("\t", -1);
      String head = "[" + quote(row[0]) + ", " + quote(row[1]) + ", ";
      Future<List<String>> task = threads.submit(() -> BucketIdentifier.getHashKeys(row[0], row[1]));
      try {
        List<String> values = task.get(3, TimeUnit.SECONDS);
        StringBuilder texts = new StringBuilder();
        for (String value : values) {
          texts.append(texts.length() > 0 ? ", " : "").append(value == null ? "null" : quote(value));
        }
        out.println(head + "[" + texts + "], " + values.hashCode() + "]");
      } catch (TimeoutException never) {
        out.println(head + "\"never\", null]");
      } catch (ExecutionException error) {
        out.println(head + quote("error: " + error.getCause().getClass().getSimpleName()) + ", null]");
      }
    }
    System.exit(0); // threads that never return are still there
  }

  private static String quote(String text) {
    return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\t", "\\t") + '"';
  }
}
