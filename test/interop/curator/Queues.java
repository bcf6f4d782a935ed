import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedIdQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.state.ConnectionState;

/** Scenarios of queues. */
final class Queues {
    private static final String PATH = "/queue";

    private Queues() {
    }

    static void add(Map<String, Stage.Play> plays) {
        plays.put("queue", Queues::queue);
        plays.put("queue with locks", Queues::locked);
        plays.put("priority queue", Queues::priority);
        plays.put("id queue", Queues::ids);
        plays.put("delay queue", Queues::delay);
        plays.put("simple queue", Queues::simple);
    }

    private static final QueueSerializer<String> TEXT = new QueueSerializer<>() {
        @Override
        public byte[] serialize(String item) {
            return Stage.bytes(item);
        }

        @Override
        public String deserialize(byte[] d) {
            return Stage.text(d);
        }
    };

    private static final class Consumer implements QueueConsumer<String> {
        private final List<String> got = new ArrayList<>();
        private boolean fails;

        @Override
        public synchronized void consumeMessage(String message) throws Exception {
            if (fails) {
                fails = false;
                got.add("(" + message + ")");
                throw new Exception("of purpose");
            }
            got.add(message);
        }

        synchronized void failOnce() {
            fails = true;
        }

        @Override
        public void stateChanged(CuratorFramework c, ConnectionState state) {
            // of no interest here
        }

        synchronized List<String> got() {
            return List.copyOf(got);
        }
    }

    private static void consumed(Stage s, Consumer c, int n) throws Exception {
        s.await(n + " items of " + c.got(), () -> c.got().size() >= n);
        s.say(c.got());
    }

    private static void queue(Stage s) throws Exception {
        DistributedQueue<String> producer = s.use(QueueBuilder.builder(s.a, null, TEXT, PATH).buildQueue());
        producer.start();
        for (int i = 0; i < 10; i++) {
            producer.put("item " + i);
        }
        s.say(producer.flushPuts(Stage.PATIENCE, TimeUnit.MILLISECONDS));
        s.b.sync().forPath(PATH);
        s.say(s.b.getChildren().forPath(PATH).size());
        Consumer consumer = new Consumer();
        DistributedQueue<String> q = s.use(QueueBuilder.builder(s.b, consumer, TEXT, PATH).buildQueue());
        q.start();
        consumed(s, consumer, 10);
        producer.put("one more");
        consumed(s, consumer, 11);
        s.await("empty", () -> s.a.getChildren().forPath(PATH).isEmpty());
    }

    private static void locked(Stage s) throws Exception {
        Consumer consumer = new Consumer();
        consumer.failOnce();
        DistributedQueue<String> q = s.use(QueueBuilder.builder(s.b, consumer, TEXT, PATH).lockPath("/locks").buildQueue());
        q.start();
        DistributedQueue<String> producer = s.use(QueueBuilder.builder(s.a, null, TEXT, PATH).buildQueue());
        producer.start();
        producer.put("again");
        consumed(s, consumer, 2);
        producer.put("last");
        consumed(s, consumer, 3);
    }

    private static void priority(Stage s) throws Exception {
        DistributedPriorityQueue<String> producer = s.use(QueueBuilder.builder(s.a, null, TEXT, PATH).buildPriorityQueue(0));
        producer.start();
        producer.put("five", 5);
        producer.put("one", 1);
        producer.put("minus", -3);
        producer.put("three", 3);
        producer.put("one again", 1);
        producer.flushPuts(Stage.PATIENCE, TimeUnit.MILLISECONDS);
        s.b.sync().forPath(PATH);
        Consumer consumer = new Consumer();
        DistributedPriorityQueue<String> q = s.use(QueueBuilder.builder(s.b, consumer, TEXT, PATH).buildPriorityQueue(0));
        q.start();
        consumed(s, consumer, 5);
    }

    private static void ids(Stage s) throws Exception {
        DistributedIdQueue<String> producer = s.use(QueueBuilder.builder(s.a, null, TEXT, PATH).buildIdQueue());
        producer.start();
        producer.put("kept", "k");
        producer.put("removed", "r");
        producer.put("removed too", "r");
        s.say(producer.flushPuts(Stage.PATIENCE, TimeUnit.MILLISECONDS), producer.remove("r"), producer.remove("none"));
        s.b.sync().forPath(PATH);
        Consumer consumer = new Consumer();
        DistributedIdQueue<String> q = s.use(QueueBuilder.builder(s.b, consumer, TEXT, PATH).buildIdQueue());
        q.start();
        consumed(s, consumer, 1);
    }

    private static void delay(Stage s) throws Exception {
        Consumer consumer = new Consumer();
        DistributedDelayQueue<String> q = s.use(QueueBuilder.builder(s.b, consumer, TEXT, PATH).buildDelayQueue());
        q.start();
        long now = System.currentTimeMillis();
        DistributedDelayQueue<String> producer = s.use(QueueBuilder.builder(s.a, null, TEXT, PATH).buildDelayQueue());
        producer.start();
        producer.put("later", now + 600);
        producer.put("soon", now + 300);
        producer.put("never", now + 3_600_000);
        consumed(s, consumer, 2);
    }

    private static void simple(Stage s) throws Exception {
        SimpleDistributedQueue one = new SimpleDistributedQueue(s.a, PATH);
        SimpleDistributedQueue two = new SimpleDistributedQueue(s.b, PATH);
        s.say(one.offer(Stage.bytes("a")), one.offer(Stage.bytes("b")));
        s.b.sync().forPath(PATH);
        s.say(two.peek());
        s.say(two.take());
        s.say(two.poll());
        s.say(two.poll(Stage.MOMENT, TimeUnit.MILLISECONDS));
        Future<byte[]> waiting = s.actor().begin(() -> two.poll(Stage.PATIENCE, TimeUnit.MILLISECONDS));
        s.say("waits", Stage.waits(waiting));
        one.offer(Stage.bytes("c"));
        s.say(Stage.done(waiting));
    }
}
