import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;
import org.apache.flink.util.CloseableIterator;
import org.apache.hudi.sink.compact.HoodieFlinkCompactor;

/**
 * Apache Hudi on Apache Flink, doing what it is told line by line, in this process: each job runs
 * on a MiniCluster.
 *
 * <p>Each line of standard input is a JSON object, and is answered by one on standard output:
 * {"failed": null, "value": ...} or why it failed. "do" is one of
 *
 * <ul>
 *   <li>write: table (a CREATE TABLE statement for `t`), columns (name and type pairs), rows (lists:
 *       the row kind +I, -U, +U or -D, then the values). A streaming job that ends with its rows.
 *   <li>read: table, query. A batch job; the value is the list of rows.
 *   <li>compact: arguments of HoodieFlinkCompactor, which executes a pending compaction.
 * </ul>
 */
public final class FlinkServer {
  private static final ObjectMapper JSON = new ObjectMapper();

  private FlinkServer() {}

  public static void main(String[] arguments) throws Exception {
    PrintStream answers = System.out;
    System.setOut(System.err); // jobs print what is not an answer
    answer(answers, null, null);
    BufferedReader questions =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = questions.readLine(); line != null; line = questions.readLine()) {
      Object value = null;
      String failed = null;
      try {
        JsonNode asked = JSON.readTree(line);
        switch (asked.get("do").asText()) {
          case "write":
            write(asked);
            break;
          case "read":
            value = read(asked);
            break;
          case "compact":
            compact(asked);
            break;
          default:
            throw new IllegalArgumentException("unknown: " + line);
        }
      } catch (Throwable error) { // class loading errors are answers too
        error.printStackTrace();
        failed = rootCause(error);
      }
      answer(answers, failed, value);
    }
    System.exit(0); // threads of Hudi's would keep the process
  }

  private static void write(JsonNode asked) throws Exception {
    Configuration configuration = configuration();
    StreamExecutionEnvironment stream =
        StreamExecutionEnvironment.getExecutionEnvironment(configuration);
    stream.enableCheckpointing(1000);
    stream.setParallelism(2);
    StreamTableEnvironment tables = StreamTableEnvironment.create(stream);
    tables.getConfig().set("table.local-time-zone", "UTC");

    List<String> names = new ArrayList<>();
    List<TypeInformation<?>> types = new ArrayList<>();
    Schema.Builder schema = Schema.newBuilder();
    for (JsonNode column : asked.get("columns")) {
      String name = column.get(0).asText();
      String type = column.get(1).asText();
      names.add(name);
      types.add(typeOf(type));
      schema.column(name, type);
    }
    List<Row> rows = new ArrayList<>();
    for (JsonNode values : asked.get("rows")) {
      Row row = new Row(kindOf(values.get(0).asText()), names.size());
      for (int i = 0; i < names.size(); i++) {
        row.setField(i, valueOf(values.get(i + 1), types.get(i)));
      }
      rows.add(row);
    }
    TypeInformation<Row> rowType =
        Types.ROW_NAMED(names.toArray(new String[0]), types.toArray(new TypeInformation<?>[0]));
    Table source =
        tables.fromChangelogStream(
            stream.fromCollection(rows, rowType).setParallelism(1),
            schema.primaryKey(asked.get("key").asText()).build(),
            ChangelogMode.all());
    tables.createTemporaryView("source", source);
    tables.executeSql(asked.get("table").asText());
    tables.executeSql("INSERT INTO t SELECT * FROM source").await();
  }

  private static List<List<Object>> read(JsonNode asked) throws Exception {
    TableEnvironment tables =
        TableEnvironment.create(
            EnvironmentSettings.newInstance()
                .inBatchMode()
                .withConfiguration(configuration())
                .build());
    tables.getConfig().set("table.local-time-zone", "UTC");
    tables.executeSql(asked.get("table").asText());
    List<List<Object>> rows = new ArrayList<>();
    try (CloseableIterator<Row> found =
        tables.executeSql(asked.get("query").asText()).collect()) {
      while (found.hasNext()) {
        Row row = found.next();
        List<Object> values = new ArrayList<>();
        for (int i = 0; i < row.getArity(); i++) {
          values.add(row.getField(i));
        }
        rows.add(values);
      }
    }
    return rows;
  }

  private static void compact(JsonNode asked) throws Exception {
    List<String> arguments = new ArrayList<>();
    asked.get("arguments").forEach(argument -> arguments.add(argument.asText()));
    HoodieFlinkCompactor.main(arguments.toArray(new String[0]));
  }

  private static Configuration configuration() {
    Configuration configuration = new Configuration();
    configuration.setString("parallelism.default", "2");
    configuration.setString("rest.bind-port", "0");
    configuration.setString("restart-strategy", "none"); // a job that fails says why
    configuration.setString("taskmanager.numberOfTaskSlots", "8");
    return configuration;
  }

  private static TypeInformation<?> typeOf(String type) {
    switch (type.split(" ")[0]) {
      case "STRING":
        return Types.STRING;
      case "INT":
        return Types.INT;
      case "BIGINT":
        return Types.LONG;
      case "DOUBLE":
        return Types.DOUBLE;
      default:
        throw new IllegalArgumentException("no such type here: " + type);
    }
  }

  private static Object valueOf(JsonNode value, TypeInformation<?> type) {
    if (value.isNull()) {
      return null;
    }
    if (type == Types.STRING) {
      return value.asText();
    }
    if (type == Types.INT) {
      return value.asInt();
    }
    return type == Types.LONG ? (Object) value.asLong() : (Object) value.asDouble();
  }

  private static RowKind kindOf(String text) {
    for (RowKind kind : RowKind.values()) {
      if (kind.shortString().equals(text)) {
        return kind;
      }
    }
    throw new IllegalArgumentException("no row kind: " + text);
  }

  private static String rootCause(Throwable error) {
    Throwable cause = error;
    while (cause.getCause() != null && cause.getCause() != cause) {
      cause = cause.getCause();
    }
    return cause.toString();
  }

  private static void answer(PrintStream answers, String failed, Object value) throws Exception {
    Map<String, Object> answer = new HashMap<>();
    answer.put("failed", failed);
    answer.put("value", value);
    answers.write((JSON.writeValueAsString(answer) + "\n").getBytes(StandardCharsets.UTF_8));
    answers.flush();
  }
}
