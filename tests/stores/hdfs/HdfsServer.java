import java.io.File;
import java.nio.file.Files;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** An HDFS of one name node and one data node in the folder it is given. Prints the port of WebHDFS, and ends with its standard input. */
public class HdfsServer {
  public static void main(String[] args) throws Exception {
    Configuration conf = new Configuration();
    conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, args[0]);
    conf.set("dfs.permissions.enabled", "false");
    try (MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf).numDataNodes(1).build()) {
      cluster.waitClusterUp();
      System.out.println("port " + cluster.getNameNode().getHttpAddress().getPort());
      System.out.flush();
      while (System.in.read() >= 0) {}
    }
  }
}
