import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.curator.framework.CuratorFramework;

/**
 * Plays scenarios of Curator's against servers: Main SERVERS [REGEX]. Prints of each
 * "> NAME" and its transcript. A line "! restart" asks whoever reads this to restart
 * the lone server, or the leader; a line on the standard input says that it is done.
 */
public final class Main {
    private static final BufferedReader ANSWERS = new BufferedReader(new InputStreamReader(System.in));

    private Main() {
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static void restart() throws Exception {
        say("! restart");
        ANSWERS.readLine();
    }

    public static void main(String[] args) throws Exception {
        Map<String, Stage.Play> plays = new LinkedHashMap<>();
        Nodes.add(plays);
        Locks.add(plays);
        Leaders.add(plays);
        Barriers.add(plays);
        Numbers.add(plays);
        Members.add(plays);
        Watches.add(plays);
        Caches.add(plays);
        Queues.add(plays);
        Breaks.add(plays);
        Pattern wanted = Pattern.compile(args.length > 1 ? args[1] : "");
        CuratorFramework a = Stage.connect(args[0], "");
        CuratorFramework b = Stage.connect(args[0], "");
        for (var entry : plays.entrySet()) {
            if (wanted.matcher(entry.getKey()).find()) {
                play(entry.getKey(), entry.getValue(), args[0], a, b);
            }
        }
        say("> end");
        System.exit(0);
    }

    private static void play(String name, Stage.Play play, String servers, CuratorFramework a, CuratorFramework b) {
        say("> " + name);
        String failure = "";
        String said = "";
        try (Stage s = new Stage(name.replace(' ', '-'), servers, a, b, Main::restart)) {
            try {
                play.on(s);
            } finally {
                said = s.transcript();
            }
        } catch (Throwable e) {
            failure = "failed: " + e + "\n";
            e.printStackTrace();
        }
        System.out.print(said + failure);
        System.out.flush();
    }
}
