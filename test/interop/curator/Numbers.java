import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.CachedAtomicLong;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicValue;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;

/** Scenarios of shared counts and values. */
final class Numbers {
    private static final String PATH = "/number";

    private Numbers() {
    }

    static void add(Map<String, Stage.Play> plays) {
        plays.put("shared count", Numbers::count);
        plays.put("shared value", Numbers::value);
        plays.put("atomic long", Numbers::atomic);
        plays.put("atomic long contended", Numbers::contended);
        plays.put("atomic value", Numbers::atomicValue);
    }

    private static void count(Stage s) throws Exception {
        SharedCount one = s.use(new SharedCount(s.a, PATH, 7));
        SharedCount two = s.use(new SharedCount(s.b, PATH, 9));
        one.start();
        s.await("the other's server has it", () -> s.b.checkExists().forPath(PATH) != null);
        two.start();
        s.say(one.getCount(), two.getCount());
        AtomicInteger told = new AtomicInteger();
        two.addListener(new SharedCountListener() {
            @Override
            public void countHasChanged(SharedCountReader reader, int count) {
                told.set(count);
            }

            @Override
            public void stateChanged(CuratorFramework c, ConnectionState state) {
                // of no interest here
            }
        });
        VersionedValue<Integer> old = two.getVersionedValue();
        one.setCount(20);
        s.see("the other is told", () -> told.get() == 20);
        s.say(two.trySetCount(old, 30), two.getCount());
        s.say(two.trySetCount(two.getVersionedValue(), 31));
        s.see("one sees it", () -> one.getCount() == 31);
        s.say(Stage.stat(s.a.checkExists().forPath(PATH)));
    }

    private static void value(Stage s) throws Exception {
        SharedValue one = s.use(new SharedValue(s.a, PATH, Stage.bytes("seed")));
        one.start();
        VersionedValue<byte[]> v = one.getVersionedValue();
        s.say(v.getVersion(), v.getValue(), one.trySetValue(v, Stage.bytes("next")));
        s.say(one.trySetValue(v, Stage.bytes("late")), one.getValue());
    }

    private static void show(Stage s, String what, AtomicValue<Long> v) {
        s.say(what, v.succeeded(), v.preValue(), v.postValue());
    }

    private static DistributedAtomicLong number(CuratorFramework c) {
        return new DistributedAtomicLong(c, PATH, new RetryNTimes(200, 1),
            PromotedToLock.builder().lockPath("/promoted").retryPolicy(new RetryNTimes(3, 1)).build());
    }

    private static void atomic(Stage s) throws Exception {
        DistributedAtomicLong one = number(s.a);
        show(s, "get", one.get());
        s.say("initialize", one.initialize(5L), one.initialize(6L));
        show(s, "increment", one.increment());
        show(s, "add", one.add(10L));
        show(s, "subtract", one.subtract(20L));
        show(s, "decrement", one.decrement());
        show(s, "compareAndSet", one.compareAndSet(-5L, 100L));
        show(s, "compareAndSet", one.compareAndSet(-5L, 200L));
        show(s, "trySet", one.trySet(1L << 40));
        one.forceSet(3L);
        s.b.sync().forPath(PATH);
        show(s, "get", number(s.b).get());
        CachedAtomicLong ids = new CachedAtomicLong(one, 10);
        for (int i = 0; i < 11; i++) {
            ids.next();
        }
        show(s, "after eleven of caches of ten", one.get());
    }

    private static void contended(Stage s) throws Exception {
        List<Future<Integer>> all = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            DistributedAtomicLong n = number(i % 2 == 0 ? s.a : s.b);
            all.add(s.actor().begin(() -> {
                int succeeded = 0;
                while (succeeded < 15) {
                    succeeded += n.increment().succeeded() ? 1 : 0;
                }
                return succeeded;
            }));
        }
        for (Future<Integer> f : all) {
            Stage.done(f);
        }
        s.a.sync().forPath(PATH);
        show(s, "get", number(s.a).get());
    }

    private static void atomicValue(Stage s) throws Exception {
        DistributedAtomicValue v = new DistributedAtomicValue(s.a, PATH, new RetryNTimes(10, 1));
        s.say(v.initialize(Stage.bytes("a")), v.get().postValue());
        AtomicValue<byte[]> set = v.trySet(Stage.bytes("b"));
        s.say(set.succeeded(), set.preValue(), set.postValue());
        s.say(v.compareAndSet(Stage.bytes("x"), Stage.bytes("c")).succeeded(),
            v.compareAndSet(Stage.bytes("b"), Stage.bytes("c")).succeeded(), v.get().postValue());
    }
}
