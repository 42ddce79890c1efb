import java.io.PrintWriter;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.BrokerStartup;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.namesrv.NamesrvStartup;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.MessageStore;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * A name server, a broker and their own clients of one RocketMQ in one process: sends what a plan
 * asks for, reads everything back through the network, and ends. It uses only what 4.7 to 5.5 have
 * in common.
 *
 * <p>The plan is a properties file: namesrv.conf, broker.conf (files for the two), broker.address,
 * parts (what to send, by name), wait_ms (before it reads), producer (its group), ask (file of "topic TAB key" lines to
 * look up), out, seed, run, end (stop or kill). Answers go to `out`, a JSON document a line, told
 * by "kind": message (in the order of its queue), queue, key, id.
 */
public final class RealBroker {
    private static final String BROKER = "real";
    private static final String GROUP = "versions";
    private static final long BEGUN = System.currentTimeMillis();
    private static final int PATIENCE_MS = 60_000;
    private static final int ASKED_MAX = 60;
    private static final String[] UNLISTED = {
        "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
    };
    private static final String[] WORDS = {"paid", "shipped", "取消", "naïve", "🚀", "a&b\"c\\d"};

    private final Properties plan;
    private final Random chance;
    private final String run;
    private final PrintWriter out;
    private final Set<List<String>> asked = new LinkedHashSet<>();
    private final Set<List<String>> ids = new LinkedHashSet<>();
    private final Set<String> hidden = new TreeSet<>();
    private BrokerController controller;
    private TransactionMQProducer producer;
    private DefaultMQPullConsumer consumer;
    private DefaultMQAdminExt admin;
    private int number;

    private RealBroker(Properties plan) throws Exception {
        this.plan = plan;
        this.run = plan.getProperty("run");
        this.chance = new Random(Long.parseLong(plan.getProperty("seed")) * 31 + run.hashCode());
        this.out = new PrintWriter(Files.newBufferedWriter(Path.of(plan.getProperty("out"))));
    }

    public static void main(String[] arguments) {
        try {
            Properties plan = new Properties();
            try (var reader = Files.newBufferedReader(Path.of(arguments[0]))) {
                plan.load(reader);
            }
            new RealBroker(plan).work();
        } catch (Throwable wrong) {
            wrong.printStackTrace();
            Runtime.getRuntime().halt(3);
        }
    }

    private void work() throws Exception {
        NamesrvStartup.main(new String[] {"-c", plan.getProperty("namesrv.conf")});
        String[] given = {"-c", plan.getProperty("broker.conf")};
        controller = BrokerStartup.start(BrokerStartup.createBrokerController(given));
        stage("started");
        connect();
        stage("connected");
        for (String line : Files.readAllLines(Path.of(plan.getProperty("ask")))) {
            asked.add(List.of(line.split("\t")));
        }
        for (String part : plan.getProperty("parts").split(",")) {
            send(part);
            stage("sent " + part);
        }
        Thread.sleep(Long.parseLong(plan.getProperty("wait_ms", "0")));
        settle();
        stage("settled");
        int count = readAll();
        stage("read");
        lookUp();
        stage("looked up");
        out.close();
        System.out.println("READ " + count);
        if (plan.getProperty("end").equals("kill")) {
            Runtime.getRuntime().halt(0);
        }
        producer.shutdown();
        consumer.shutdown();
        admin.shutdown();
        System.exit(0); // the broker's own hook stops it in order
    }

    private void stage(String done) {
        System.out.printf("STAGE %.1f s %s%n", (System.currentTimeMillis() - BEGUN) / 1e3, done);
    }

    private void connect() throws Exception {
        System.setProperty("rocketmq.namesrv.addr", plan.getProperty("namesrv.address"));
        producer = new TransactionMQProducer(plan.getProperty("producer"));
        producer.setTransactionListener(new ByFlag());
        producer.setSendMsgTimeout(PATIENCE_MS);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setVipChannelEnabled(false);
        producer.setHeartbeatBrokerInterval(1000); // then a broker knows whom to ask
        producer.start();
        consumer = new DefaultMQPullConsumer(GROUP);
        consumer.setVipChannelEnabled(false);
        consumer.setConsumerPullTimeoutMillis(PATIENCE_MS);
        consumer.start();
        admin = new DefaultMQAdminExt(PATIENCE_MS);
        admin.setInstanceName("admin");
        admin.setVipChannelEnabled(false);
        admin.start();
    }

    private void send(String part) throws Exception {
        switch (part) {
            case "" -> { }
            case "mixed" -> sendMixed(240);
            case "few" -> sendMixed(40);
            case "transactions" -> sendTransactions();
            case "delays" -> sendDelays();
            case "timers" -> sendTimers();
            case "lmq" -> sendMultiDispatch();
            case "queues" -> sendToManyQueues();
            case "deleted" -> deleteTopics();
            case "large" -> sendLarge();
            case "retry" -> sendBack();
            default -> throw new IllegalArgumentException("no part " + part);
        }
    }

    // --- what is sent ----------------------------------------------------------------------------

    private void sendMixed(int count) throws Exception {
        String[] topics = {"orders", "mixed-topic", "t".repeat(120)};
        for (String topic : topics) {
            createTopic(topic, 3);
        }
        for (int i = 0; i < count; i++) {
            String topic = topics[i % topics.length];
            MessageQueue queue = new MessageQueue(topic, BROKER, chance.nextInt(3));
            if (i % 12 == 5) {
                List<Message> batch = new ArrayList<>();
                for (int j = 0; j < 5; j++) {
                    batch.add(message(topic, 40 + chance.nextInt(200)));
                }
                sent(topic, producer.send(batch, queue));
            } else {
                int size = i % 10 == 3 ? 6000 : 1 + chance.nextInt(900);
                sent(topic, producer.send(message(topic, size), queue));
            }
            if (i % 40 == 20) {
                refused(queue);
            }
        }
    }

    /** A broker refuses properties of more than 32 KiB; what it does to the queue then, shows. */
    private void refused(MessageQueue queue) throws Exception {
        Message message = message(queue.getTopic(), 10);
        message.putUserProperty("large", "x".repeat(33_000));
        try {
            producer.send(message, queue);
        } catch (Exception expected) {
            return;
        }
        throw new IllegalStateException("a message with too long properties was taken");
    }

    private void sendTransactions() throws Exception {
        createTopic("pay", 2);
        for (int i = 0; i < 15; i++) {
            Message message = message("pay", 50 + chance.nextInt(300));
            message.setFlag(i % 3);
            producer.sendMessageInTransaction(message, null);
        }
    }

    private void sendDelays() throws Exception {
        createTopic("later", 2);
        for (int i = 0; i < 12; i++) {
            Message message = message("later", 100);
            message.setDelayTimeLevel(i % 2 == 0 ? 1 : 16 + i % 3);
            producer.send(message, new MessageQueue("later", BROKER, 0));
        }
        waitFor("later", 0, 6);
    }

    private void sendTimers() throws Exception {
        createTopic("at", 2);
        long now = System.currentTimeMillis();
        for (int i = 0; i < 12; i++) {
            Message message = message("at", 100);
            long due = now + (i % 2 == 0 ? 3_000 : 3_600_000 + 1_000L * i);
            MessageAccessor.putProperty(message, "TIMER_DELIVER_MS", String.valueOf(due));
            producer.send(message, new MessageQueue("at", BROKER, 0));
        }
        waitFor("at", 0, 6);
    }

    private void sendMultiDispatch() throws Exception {
        createTopic("room", 2);
        for (int i = 0; i < 90; i++) {
            Message message = message("room", 60);
            String queues = i % 3 == 0 ? "%LMQ%all,%LMQ%a" : "%LMQ%all,%LMQ%b";
            MessageAccessor.putProperty(message, "INNER_MULTI_DISPATCH", queues);
            sent("room", producer.send(message, new MessageQueue("room", BROKER, i % 2)));
        }
        hidden.addAll(List.of("%LMQ%all", "%LMQ%a", "%LMQ%b"));
    }

    private void sendToManyQueues() throws Exception {
        createTopic("wide", 1000);
        for (int queue = 0; queue < 1000; queue++) {
            List<Message> batch = List.of(message("wide", 20), message("wide", 30));
            sent("wide", producer.send(batch, new MessageQueue("wide", BROKER, queue)));
        }
    }

    private void deleteTopics() throws Exception {
        for (String topic : List.of("gone", "back")) {
            createTopic(topic, 3);
            for (int i = 0; i < 90; i++) {
                producer.send(message(topic, 100), new MessageQueue(topic, BROKER, i % 3));
            }
        }
        settle();
        String address = plan.getProperty("broker.address");
        for (String topic : List.of("gone", "back")) {
            admin.deleteTopicInBroker(new HashSet<>(Set.of(address)), topic);
        }
        createTopic("back", 2);
        for (int i = 0; i < 30; i++) {
            SendResult told = producer.send(message("back", 50), new MessageQueue("back", BROKER, i % 2));
            sent("back", told);
        }
    }

    /** Twenty commit-log files' worth; then the broker's cleaner, whose own timer waits a minute. */
    private void sendLarge() throws Exception {
        createTopic("large", 4);
        for (int i = 0; i < 700; i++) {
            Message message = new Message("large", "T" + i % 3, "large-" + i, noise(3900));
            sent("large", producer.send(message, new MessageQueue("large", BROKER, i % 4)));
            if (i % 50 == 0) {
                sent("mixed-topic", producer.send(message("mixed-topic", 300)));
            }
        }
        settle();
        Object store = controller.getMessageStore();
        store.getClass().getMethod("executeDeleteFilesManually").invoke(store);
        Method clean = store.getClass().getDeclaredMethod("cleanFilesPeriodically");
        clean.setAccessible(true);
        clean.invoke(store);
    }

    private void sendBack() throws Exception {
        MessageQueue queue = new MessageQueue("orders", BROKER, 0);
        long begin = controller.getMessageStore().getMinOffsetInQueue("orders", 0);
        PullResult pulled = consumer.pull(queue, "*", begin, 3);
        for (MessageExt message : pulled.getMsgFoundList()) {
            consumer.sendMessageBack(message, 17);
        }
    }

    private Message message(String topic, int size) {
        int own = number++;
        String tag = own % 4 == 0 ? null : WORDS[own % WORDS.length];
        String keys = "key-" + run + "-" + own + (own % 5 == 0 ? " shared 订单-" + own : "");
        Message message = new Message(topic, tag, keys, 0, content(size), true);
        message.setFlag(own % 7);
        if (own % 3 == 0) {
            message.putUserProperty("größe", WORDS[own % WORDS.length] + own);
        }
        if (own % 11 == 0) {
            asked.add(List.of(topic, "key-" + run + "-" + own));
            asked.add(List.of(topic, "key-" + run + "-no-such"));
            asked.add(List.of(topic, own % 2 == 0 ? "shared" : "订单-" + own));
        }
        return message;
    }

    private byte[] content(int size) {
        if (size < 4096) {
            return noise(size);
        }
        String text = "compressible " + WORDS[chance.nextInt(WORDS.length)] + " ";
        return Arrays.copyOf(text.repeat(size).getBytes(StandardCharsets.UTF_8), size);
    }

    private byte[] noise(int size) {
        byte[] bytes = new byte[size];
        chance.nextBytes(bytes);
        return bytes;
    }

    private void sent(String topic, SendResult told) {
        if (ids.size() < ASKED_MAX && number % 9 == 0) {
            ids.add(List.of(topic, told.getMsgId().split(",")[0]));
        }
    }

    private void createTopic(String topic, int queues) throws Exception {
        TopicConfig config = new TopicConfig(topic, queues, queues, 6);
        admin.createAndUpdateTopicConfig(plan.getProperty("broker.address"), config);
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (true) {
            try {
                if (producer.fetchPublishMessageQueues(topic).size() == queues) {
                    return;
                }
            } catch (MQClientException notYet) {
                // the name server does not know it so far
            }
            pause(topic, end);
        }
    }

    // --- what is read ----------------------------------------------------------------------------

    private void waitFor(String topic, int queue, long count) throws Exception {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (controller.getMessageStore().getMaxOffsetInQueue(topic, queue) < count) {
            pause(topic + " to have " + count, end);
        }
    }

    /** Wait until queues and index know every message, and nothing new has come for a while. */
    private void settle() throws Exception {
        MessageStore store = controller.getMessageStore();
        long end = System.currentTimeMillis() + PATIENCE_MS;
        long before = -1;
        while (store.dispatchBehindBytes() > 0 || store.getMaxPhyOffset() != before) {
            before = store.getMaxPhyOffset();
            Thread.sleep(400);
            pause("the dispatch", end);
        }
    }

    private static void pause(String what, long end) throws Exception {
        if (System.currentTimeMillis() > end) {
            throw new IllegalStateException("waited in vain for " + what);
        }
        Thread.sleep(50);
    }

    private int readAll() throws Exception {
        MessageStore store = controller.getMessageStore();
        Map<String, Integer> topics = new LinkedHashMap<>();
        for (TopicConfig config : controller.getTopicConfigManager().getTopicConfigTable().values()) {
            int queues = Math.max(config.getReadQueueNums(), config.getWriteQueueNums());
            String topic = config.getTopicName();
            topics.put(topic, topic.equals("SCHEDULE_TOPIC_XXXX") ? 18 : queues);
        }
        for (String topic : UNLISTED) {
            topics.putIfAbsent(topic, topic.startsWith("SCHEDULE") ? 18 : 1);
        }
        String more = plan.getProperty("hidden");
        hidden.addAll(more.isEmpty() ? List.of() : List.of(more.split(",")));
        hidden.forEach(topic -> topics.put(topic, 1)); // last: their names lead to no broker
        int count = 0;
        for (Map.Entry<String, Integer> topic : topics.entrySet()) {
            for (int queue = 0; queue < topic.getValue(); queue++) {
                long begin = store.getMinOffsetInQueue(topic.getKey(), queue);
                long end = store.getMaxOffsetInQueue(topic.getKey(), queue);
                if (end > 0) {
                    count += readQueue(new MessageQueue(topic.getKey(), BROKER, queue), begin, end);
                }
            }
        }
        return count;
    }

    private int readQueue(MessageQueue queue, long begin, long end) throws Exception {
        out.println(document("kind", "queue", "from", queue.getTopic(), "from_queue",
            queue.getQueueId(), "min", begin, "max", end));
        boolean isListed =
            controller.getTopicConfigManager().getTopicConfigTable().containsKey(queue.getTopic());
        if (!isListed && !queue.getTopic().startsWith("%LMQ%")) {
            return readUnlisted(queue, begin, end);
        }
        int count = 0;
        long at = begin;
        while (at < end) {
            PullResult pulled = consumer.pull(queue, "*", at, 32, PATIENCE_MS);
            if (pulled.getPullStatus() == PullStatus.FOUND) {
                for (MessageExt message : pulled.getMsgFoundList()) {
                    out.println(told(queue, message));
                    count++;
                }
            }
            if (pulled.getNextBeginOffset() <= at) {
                throw new IllegalStateException(queue + " stays at " + at + ": " + pulled);
            }
            boolean isRemoved = pulled.getPullStatus() == PullStatus.NO_MATCHED_MSG
                || pulled.getMsgFoundList() == null || pulled.getMsgFoundList().isEmpty();
            // Else it would skip a whole file; 4.x finds other bytes for a record that lay at 0.
            at = isRemoved ? at + 1 : pulled.getNextBeginOffset();
        }
        return count;
    }

    /** Old brokers serve their own topics to themselves only: read as they do. */
    private int readUnlisted(MessageQueue queue, long begin, long end) throws Exception {
        MessageStore store = controller.getMessageStore();
        int count = 0;
        for (long at = begin; at < end; at++) {
            GetMessageResult found =
                store.getMessage(GROUP, queue.getTopic(), queue.getQueueId(), at, 1, null);
            for (ByteBuffer record : found.getMessageBufferList()) {
                out.println(told(queue, MessageDecoder.decode(record, true, true)));
                count++;
            }
            found.release();
        }
        return count;
    }

    private String told(MessageQueue queue, MessageExt message) throws Exception {
        Map<String, String> properties = new TreeMap<>(message.getProperties());
        properties.remove("MIN_OFFSET"); // the client puts these there
        properties.remove("MAX_OFFSET"); // and clears the flag of what it decompressed
        byte[] digest = MessageDigest.getInstance("SHA-1").digest(message.getBody());
        return document("kind", "message", "from", queue.getTopic(), "from_queue",
            queue.getQueueId(), "topic", message.getTopic(), "queue_id", message.getQueueId(),
            "queue_offset", message.getQueueOffset(), "physical_offset",
            message.getCommitLogOffset(), "store_size", message.getStoreSize(), "system_flag",
            message.getSysFlag() & ~1, "flag", message.getFlag(), "born_timestamp_ms",
            message.getBornTimestamp(), "store_timestamp_ms", message.getStoreTimestamp(),
            "born_host", host(message.getBornHost()), "store_host", host(message.getStoreHost()),
            "reconsume_times", message.getReconsumeTimes(), "prepared_transaction_offset",
            message.getPreparedTransactionOffset(), "body_crc", message.getBodyCRC(), "body_sha1",
            hexadecimal(digest), "properties", properties);
    }

    private static String host(java.net.SocketAddress address) {
        java.net.InetSocketAddress known = (java.net.InetSocketAddress) address;
        return hexadecimal(known.getAddress().getAddress()) + ":" + known.getPort();
    }

    private void lookUp() throws Exception {
        long end = System.currentTimeMillis() + 3_600_000;
        for (List<String> pair : first(asked)) {
            if (!controller.getTopicConfigManager().getTopicConfigTable().containsKey(pair.get(0))) {
                continue; // without a route a client asks nobody
            }
            List<Long> found = new ArrayList<>();
            try {
                List<MessageExt> messages =
                    admin.queryMessage(pair.get(0), pair.get(1), 64, 0, end).getMessageList();
                for (MessageExt message : messages) {
                    found.add(message.getCommitLogOffset());
                }
            } catch (MQClientException nothing) {
                // that is how the client says so
            }
            Collections.sort(found);
            out.println(document("kind", "key", "topic", pair.get(0), "key", pair.get(1), "found", found));
        }
        for (List<String> pair : first(ids)) {
            List<Long> found = new ArrayList<>();
            try {
                found.add(consumer.viewMessage(pair.get(0), pair.get(1)).getCommitLogOffset());
            } catch (Exception nothing) {
                // so it says
            }
            out.println(document("kind", "id", "topic", pair.get(0), "key", pair.get(1), "found", found));
        }
    }

    /** The first to ask for; those of a plan come before those of this run's own. */
    private static List<List<String>> first(Set<List<String>> pairs) {
        List<List<String>> all = new ArrayList<>(pairs);
        return all.subList(0, Math.min(all.size(), ASKED_MAX));
    }

    // --- JSON ------------------------------------------------------------------------------------

    private static String document(Object... namesAndValues) {
        StringBuilder text = new StringBuilder("{");
        for (int i = 0; i < namesAndValues.length; i += 2) {
            text.append(i == 0 ? "" : ",").append(json(namesAndValues[i])).append(':');
            text.append(json(namesAndValues[i + 1]));
        }
        return text.append('}').toString();
    }

    private static String json(Object value) {
        if (value instanceof Number || value instanceof List) {
            return value.toString();
        }
        if (value instanceof Map<?, ?> map) {
            List<Object> flat = new ArrayList<>();
            map.forEach((name, own) -> Collections.addAll(flat, name, own));
            return document(flat.toArray());
        }
        StringBuilder text = new StringBuilder("\"");
        for (char letter : value.toString().toCharArray()) {
            boolean isPlain = letter >= ' ' && letter < 127 && letter != '"' && letter != '\\';
            text.append(isPlain ? String.valueOf(letter) : String.format("\\u%04x", (int) letter));
        }
        return text.append('"').toString();
    }

    private static String hexadecimal(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte one : bytes) {
            text.append(String.format("%02x", one));
        }
        return text.toString();
    }

    /** Commits, rolls back or leaves half a message by its flag. */
    private static final class ByFlag implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return switch (message.getFlag()) {
                case 0 -> LocalTransactionState.COMMIT_MESSAGE;
                case 1 -> LocalTransactionState.ROLLBACK_MESSAGE;
                default -> LocalTransactionState.UNKNOW;
            };
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            String answer = String.valueOf(message.getUserProperty("answer"));
            return switch (answer) {
                case "COMMIT" -> LocalTransactionState.COMMIT_MESSAGE;
                case "ROLLBACK" -> LocalTransactionState.ROLLBACK_MESSAGE;
                default -> LocalTransactionState.UNKNOW;
            };
        }
    }
}
