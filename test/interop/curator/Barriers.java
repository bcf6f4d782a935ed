import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;

/** Scenarios of barriers. */
final class Barriers {
    private static final String PATH = "/barrier";

    private Barriers() {
    }

    static void add(Map<String, Stage.Play> plays) {
        plays.put("barrier", Barriers::barrier);
        plays.put("double barrier", Barriers::doubleBarrier);
    }

    private static void barrier(Stage s) throws Exception {
        DistributedBarrier one = new DistributedBarrier(s.a, PATH);
        DistributedBarrier two = new DistributedBarrier(s.b, PATH);
        s.say("open", two.waitOnBarrier(Stage.PATIENCE, TimeUnit.MILLISECONDS));
        one.setBarrier();
        one.setBarrier();
        s.await("the other's server has it", () -> s.b.checkExists().forPath(PATH) != null);
        s.say("closed", two.waitOnBarrier(Stage.MOMENT, TimeUnit.MILLISECONDS));
        List<Future<Boolean>> waiting = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            waiting.add(s.actor().begin(() -> two.waitOnBarrier(Stage.PATIENCE, TimeUnit.MILLISECONDS)));
        }
        s.say("all wait", Stage.waits(waiting.get(0)), Stage.waits(waiting.get(2)));
        one.removeBarrier();
        for (Future<Boolean> f : waiting) {
            s.say("passed", Stage.done(f));
        }
        one.removeBarrier();
    }

    private static void doubleBarrier(Stage s) throws Exception {
        s.say("alone", new DistributedDoubleBarrier(s.a, "/alone", 2).enter(Stage.MOMENT, TimeUnit.MILLISECONDS));
        List<DistributedDoubleBarrier> all = new ArrayList<>();
        List<Stage.Actor> actors = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            all.add(new DistributedDoubleBarrier(i == 1 ? s.b : s.a, PATH, 3));
            actors.add(s.actor());
        }
        List<Future<Boolean>> entering = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            DistributedDoubleBarrier d = all.get(i);
            entering.add(actors.get(i).begin(() -> d.enter(Stage.PATIENCE, TimeUnit.MILLISECONDS)));
        }
        s.say("two wait", Stage.waits(entering.get(0)), Stage.waits(entering.get(1)));
        entering.add(actors.get(2).begin(() -> all.get(2).enter(Stage.PATIENCE, TimeUnit.MILLISECONDS)));
        for (Future<Boolean> f : entering) {
            s.say("inside", Stage.done(f));
        }
        List<Future<Boolean>> leaving = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            DistributedDoubleBarrier d = all.get(i);
            leaving.add(actors.get(i).begin(() -> d.leave(Stage.PATIENCE, TimeUnit.MILLISECONDS)));
            if (i < 2) {
                s.say("waits to leave", Stage.waits(leaving.get(i)));
            }
        }
        for (Future<Boolean> f : leaving) {
            s.say("outside", Stage.done(f));
        }
    }
}
