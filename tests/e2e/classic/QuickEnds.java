import java.lang.management.LockInfo;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;

/**
 * Runs a program whose clients end at once: arguments are its class and its own arguments.
 *
 * <p>A client of version 5 that shuts down waits for its thread of connection events, which looks every 3 s whether it
 * is to end. That thread is interrupted once a thread waits for its end.
 */
public class QuickEnds {
    private static final int LOOK_MS = 20;

    public static void main(String[] arguments) throws Exception {
        Thread watcher = new Thread(QuickEnds::watch, "quick ends");
        watcher.setDaemon(true);
        watcher.start();
        Class.forName(arguments[0]).getMethod("main", String[].class).invoke(
            null, (Object) Arrays.copyOfRange(arguments, 1, arguments.length));
    }

    private static void watch() {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        while (true) {
            for (ThreadInfo one : threads.getThreadInfo(threads.getAllThreadIds())) {
                LockInfo awaited = one == null ? null : one.getLockInfo();
                if (awaited != null && awaited.getClassName().equals(Thread.class.getName())) {
                    interrupt(awaited.getIdentityHashCode());
                }
            }
            try {
                Thread.sleep(LOOK_MS);
            } catch (InterruptedException end) {
                return;
            }
        }
    }

    private static void interrupt(int identity) {
        Thread[] all = new Thread[2 * Thread.activeCount() + 100];
        int count = Thread.currentThread().getThreadGroup().enumerate(all);
        for (int at = 0; at < count; at++) {
            if (System.identityHashCode(all[at]) == identity && all[at].getName().startsWith("NettyEventExecutor")) {
                all[at].interrupt();
            }
        }
    }
}
