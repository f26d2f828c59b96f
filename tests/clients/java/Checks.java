import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Objects;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.KafkaFuture;

/** Named checks, printed as the Python suites print theirs. */
final class Checks {
    interface Body {
        void run() throws Exception;
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    private final String suite;
    private int passed;
    private int failed;

    Checks(String suite) {
        this.suite = suite;
    }

    void check(String name, Body body) {
        long started = System.nanoTime();
        try {
            body.run();
            passed++;
            line("ok  ", name, started);
        } catch (Throwable error) {
            failed++;
            line("FAIL", name, started);
            StringWriter text = new StringWriter();
            error.printStackTrace(new PrintWriter(text));
            text.toString().lines().limit(15).forEach(each -> System.out.println("     | " + each));
        }
    }

    private void line(String word, String name, long started) {
        System.out.printf("%s %s: %s (%.1f s)%n", word, suite, name, (System.nanoTime() - started) / 1e9);
    }

    /** Prints the summary and ends the process. */
    void finish() {
        System.out.printf("%d passed, %d failed%n", passed, failed);
        Runtime.getRuntime().halt(failed == 0 ? 0 : 1);
    }

    static <T> T get(KafkaFuture<T> future) throws Exception {
        try {
            return future.get(30, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            throw error.getCause() instanceof Exception cause ? cause : error;
        }
    }

    static void require(boolean condition, String message) {
        if (!condition) {
            throw new AssertionError(message);
        }
    }

    static void equal(Object expected, Object actual, String what) {
        require(Objects.equals(expected, actual), what + ": expected " + expected + ", got " + actual);
    }

    /** The body must fail with this error of Kafka's. */
    static void fails(Class<? extends Exception> type, Body body) throws Exception {
        try {
            body.run();
        } catch (Exception error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            require(type.isInstance(cause), "expected " + type.getSimpleName() + ", got " + cause);
            return;
        }
        throw new AssertionError("expected " + type.getSimpleName() + ", but it succeeded");
    }

    static void eventually(String what, int seconds, Condition condition) throws Exception {
        long deadline = System.nanoTime() + seconds * 1_000_000_000L;
        Throwable last = null;
        while (System.nanoTime() < deadline) {
            try {
                if (condition.holds()) {
                    return;
                }
                last = null;
            } catch (Exception error) {
                last = error;
            }
            Thread.sleep(50);
        }
        throw new AssertionError("waited " + seconds + " s for " + what + (last == null ? "" : ": " + last));
    }
}
