import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.curator.ensemble.fixed.FixedEnsembleProvider;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;

/**
 * A client of Curator whose EnsembleTracker follows the configuration of an ensemble. It prints
 * each list of servers that the tracker sets, "lost" when its session ends, and for each line that it
 * reads, after a write, the session and the server to which it is connected.
 */
public class Tracker {
    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    public static void main(String[] args) throws Exception {
        FixedEnsembleProvider provider = new FixedEnsembleProvider(args[0], true) {
            @Override
            public void setConnectionString(String servers) {
                super.setConnectionString(servers);
                say("servers " + servers);
            }
        };
        CuratorFramework client = CuratorFrameworkFactory.builder()
            .ensembleProvider(provider).ensembleTracker(true).retryPolicy(new RetryForever(20)).sessionTimeoutMs(20000).build();
        client.getConnectionStateListenable().addListener((c, state) -> {
            if (state == ConnectionState.LOST) {
                say("lost");
            }
        });
        client.start();
        client.create().orSetData().forPath("/tracked", new byte[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            client.setData().forPath("/tracked", line.getBytes());
            say("wrote " + line + " " + Long.toHexString(client.getZookeeperClient().getZooKeeper().getSessionId()));
        }
        client.close();
    }
}
