import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;

/**
 * Curator's locks on the other side of a pipe, by the commands of kazoo_peer.py. Its
 * kinds of locks are Mutex, Read and Write. Curator's locks belong to threads, so
 * each has one of its own.
 */
public class CuratorPeer {
    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private interface Work {
        void run() throws Exception;
    }

    private static void in(ExecutorService thread, Work work) {
        thread.submit(() -> {
            try {
                work.run();
            } catch (Exception e) {
                e.printStackTrace();
                say("failed " + e);
            }
        });
    }

    private static InterProcessLock make(CuratorFramework client, String kind, String path) {
        switch (kind) {
            case "Mutex": return new InterProcessMutex(client, path);
            case "Read": return new InterProcessReadWriteLock(client, path).readLock();
            case "Write": return new InterProcessReadWriteLock(client, path).writeLock();
            default: throw new IllegalArgumentException(kind);
        }
    }

    private static int loop(CuratorFramework client, InterProcessLock lock, int rounds, String path) throws Exception {
        int clashes = 0;
        for (int i = 0; i < rounds; i++) {
            lock.acquire();
            try {
                client.create().withMode(CreateMode.EPHEMERAL).forPath(path);
                client.delete().forPath(path);
            } catch (KeeperException.NodeExistsException e) {
                clashes++;
            } finally {
                lock.release();
            }
        }
        return clashes;
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], new RetryForever(100));
        client.start();
        Map<String, InterProcessLock> locks = new HashMap<>();
        Map<String, ExecutorService> threads = new HashMap<>();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] word = line.trim().split(" +");
            String name = word[1];
            if (word[0].equals("new")) {
                locks.put(name, make(client, word[2], word[3]));
                threads.put(name, Executors.newSingleThreadExecutor());
                say("made " + name);
                continue;
            }
            InterProcessLock lock = locks.get(name);
            in(threads.get(name), () -> {
                switch (word[0]) {
                    case "try":
                        say((lock.acquire(0, TimeUnit.MILLISECONDS) ? "acquired " : "refused ") + name);
                        break;
                    case "acquire":
                        lock.acquire();
                        say("acquired " + name);
                        break;
                    case "release":
                        lock.release();
                        say("released " + name);
                        break;
                    case "loop":
                        say("looped " + name + " " + loop(client, lock, Integer.parseInt(word[2]), word[3]));
                        break;
                    default:
                        say("what is " + word[0]);
                }
            });
        }
        client.close();
        System.exit(0);
    }
}
