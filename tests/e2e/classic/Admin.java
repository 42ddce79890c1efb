import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Runs commands of mqadmin in one JVM; arguments are split at "--". Errors are printed in their place. */
public class Admin {
    public static void main(String[] args) {
        System.setErr(System.out);
        for (String line : String.join("\n", args).split("\n--\n")) {
            String[] words = line.split("\n");
            System.out.println("== " + words[0]);
            MQAdminStartup.main0(words, null);
            System.out.flush();
        }
        System.exit(0);
    }
}
