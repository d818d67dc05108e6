package org.apache.hudi.index.bucket;

import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.hudi.common.config.RecordMergeMode;
import org.apache.hudi.common.model.ConsistentHashingNode;
import org.apache.hudi.common.model.HoodieConsistentHashingMetadata;
import org.apache.hudi.common.table.HoodieTableConfig;
import org.apache.hudi.common.table.HoodieTableVersion;
import org.apache.hudi.common.table.timeline.HoodieInstantTimeGenerator;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.common.util.PartitionPathEncodeUtils;
import org.apache.hudi.index.bucket.partition.PartitionBucketIndexCalculator;
import org.apache.hudi.keygen.KeyGenUtils;

/**
 * Answers questions, one per line: a name and arguments in base64 (`-` is null), parted by tabs. Prints the answer
 * in base64, or the exception's class behind an exclamation mark.
 */
public class Decisions {
  public static void main(String[] args) throws Exception {
    PrintStream out = new PrintStream(new FileOutputStream(args[1]), true, "UTF-8");
    for (String line : Files.readAllLines(Paths.get(args[0]))) {
      String[] row = line.split("\t", -1);
      String[] given = Arrays.stream(row).skip(1).map(Decisions::decode).toArray(String[]::new);
      try {
        byte[] answer = String.valueOf(answer(row[0], given)).getBytes(StandardCharsets.UTF_8);
        out.println(Base64.getEncoder().encodeToString(answer));
      } catch (Throwable error) {
        out.println("!" + error.getClass().getSimpleName());
      }
    }
    System.exit(0);
  }

  private static String decode(String text) {
    return text.equals("-") ? null : new String(Base64.getDecoder().decode(text), StandardCharsets.UTF_8);
  }

  private static Object answer(String question, String[] given) throws Exception {
    switch (question) {
      case "instant-date": // as wall-clock time of a JVM in UTC
        return HoodieInstantTimeGenerator.parseDateFromInstantTime(given[0]).toInstant();
      case "escape":
        return PartitionPathEncodeUtils.escapePathName(given[0]);
      case "unescape":
        return PartitionPathEncodeUtils.unescapePathName(given[0]);
      case "buckets": // partition path, expressions, rule, default
        return PartitionBucketIndexCalculator.getInstance(given[1], given[2], Integer.parseInt(given[3]))
            .computeNumBuckets(given[0]);
      case "key-generator": // record key fields, partition fields
        return KeyGenUtils.inferKeyGeneratorType(Option.ofNullable(given[0]), given[1]);
      case "merge-mode": // version, mode, payload, strategy, ordering fields
        return HoodieTableConfig.inferMergingConfigsForPreV9Table(
            given[1] == null ? null : RecordMergeMode.valueOf(given[1]), given[2], given[3], given[4],
            HoodieTableVersion.fromVersionCode(Integer.parseInt(given[0]))).getLeft();
      case "ring-node": // ring values, hash
        return ring(given[0], "").getBucket(Integer.parseInt(given[1])).getValue();
      case "ring-apply": // ring values, children "value/prefix/tag,..."
        return ring(given[0], given[1]).getNodes().stream()
            .map(node -> node.getValue() + "/" + node.getFileIdPrefix()).collect(Collectors.joining(","));
      default:
        throw new IllegalArgumentException(question);
    }
  }

  private static ConsistentBucketIdentifier ring(String values, String children) {
    List<ConsistentHashingNode> nodes = Arrays.stream(values.split(","))
        .map(value -> new ConsistentHashingNode(Integer.parseInt(value), "f" + value)).collect(Collectors.toList());
    HoodieConsistentHashingMetadata metadata =
        new HoodieConsistentHashingMetadata((short) 0, "p", "00000000000000", nodes.size(), 0, nodes);
    if (!children.isEmpty()) {
      metadata.setChildrenNodes(Arrays.stream(children.split(",")).map(child -> child.split("/"))
          .map(child -> new ConsistentHashingNode(Integer.parseInt(child[0]),
              child[1].equals("null") ? null : child[1], ConsistentHashingNode.NodeTag.valueOf(child[2])))
          .collect(Collectors.toList()));
    }
    return new ConsistentBucketIdentifier(metadata);
  }
}
