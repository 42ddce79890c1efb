import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.trace.TraceContext;
import org.apache.rocketmq.client.trace.TraceDataEncoder;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumes as programs do; prints one line for each case, "ok NAME" or "failed NAME". */
public class Classic {
    static final long WAIT_MS = 60_000;
    static final List<Integer> RETURNED = new CopyOnWriteArrayList<>();
    static String address;
    static boolean isNew;

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        returned();
        orderedInVain();
        poppedInVain();
        List<Thread> running = new ArrayList<>();
        for (Cases cases : Arrays.<Cases>asList(
                Classic::shared, Classic::retried, Classic::ordered, Classic::popped, Classic::requested,
                Classic::traced)) {
            Thread thread = new Thread(() -> run(cases));
            thread.start();
            running.add(thread);
        }
        for (Thread thread : running) {
            thread.join();
        }
        judged();
        System.exit(0);
    }

    /** Cases that follow each other, beside others with topics and groups of their own. */
    interface Cases {
        void run() throws Exception;
    }

    static void run(Cases cases) {
        try {
            cases.run();
        } catch (Exception error) {
            error.printStackTrace();
        }
    }

    /** Has no message at an offset returned: the client then sends it to the retry topic itself. */
    static void returned() throws Exception {
        send("Returned", 1, "A");
        DefaultMQPushConsumer consumer = push("returned", "Returned", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt one = messages.get(0);
            RETURNED.add(one.getReconsumeTimes());
            one.setCommitLogOffset(1);
            return one.getReconsumeTimes() > 0
                ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
    }

    /** Never consumes a message in order, which may be tried twice. */
    static void orderedInVain() throws Exception {
        send("OrderedInVain", 1, "A");
        DefaultMQPushConsumer consumer = push("ordered-in-vain", "OrderedInVain", "*");
        consumer.setMaxReconsumeTimes(1);
        consumer.setSuspendCurrentQueueTimeMillis(50);
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
            ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        consumer.start();
    }

    /** Never consumes a popped message, which the group's settings let be tried once. */
    static void poppedInVain() throws Exception {
        DefaultMQPushConsumer consumer = push("popped-in-vain", "PoppedInVain", "*");
        isNew = leftToBroker(consumer);
        if (isNew) {
            send("PoppedInVain", 1, "A");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                ConsumeConcurrentlyStatus.RECONSUME_LATER);
            consumer.start();
        }
    }

    /** Judges what was begun first, as the delays take 10 s. */
    static void judged() throws Exception {
        told("retry by a send", () -> RETURNED.equals(Arrays.asList(0, 1)));
        DefaultMQPullConsumer puller = puller();
        told("dead letter in order", () -> pulled(puller, "%DLQ%ordered-in-vain").size() == 1);
        if (isNew) {
            told("dead letter of a pop", () -> pulled(puller, "%DLQ%popped-in-vain").size() == 1);
        }
        puller.shutdown();
    }

    static void shared() throws Exception {
        send("Shared", 20, "A");
        send("Shared", 5, "B");
        Set<String> got = ConcurrentHashMap.newKeySet();
        AtomicInteger first = new AtomicInteger();
        AtomicInteger second = new AtomicInteger();
        DefaultMQPushConsumer one = counting("shared", "Shared", "A", first, got);
        told("push by tag", () -> first.get() == 20 && got.size() == 20);
        DefaultMQPushConsumer two = counting("shared", "Shared", "A", second, got);
        long end = System.currentTimeMillis() + WAIT_MS;
        int sent = 20;
        while (second.get() == 0 && System.currentTimeMillis() < end) {
            send("Shared", 20, "A");
            sent += 20;
            Thread.sleep(500);
        }
        int all = sent;
        told("two members share", () -> second.get() > 0 && got.size() == all);
        two.shutdown();
        send("Shared", 20, "A");
        told("the rest takes over", () -> got.size() == all + 20);
        one.shutdown();
        selected();
    }

    static void retried() throws Exception {
        send("Retried", 1, "A");
        List<Integer> times = new CopyOnWriteArrayList<>();
        DefaultMQPushConsumer consumer = push("retried", "Retried", "*");
        consumer.setMaxReconsumeTimes(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt one : messages) {
                times.add(one.getReconsumeTimes());
            }
            context.setDelayLevelWhenNextConsume(1);
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        told("retry", () -> times.equals(Arrays.asList(0, 1)));
        DefaultMQPullConsumer puller = puller();
        told("dead letter by pull", () -> pulled(puller, "%DLQ%retried").size() == 1);
        puller.shutdown();
        consumer.shutdown();
    }

    static DefaultMQPullConsumer puller() throws Exception {
        DefaultMQPullConsumer puller = new DefaultMQPullConsumer("pullers");
        puller.setNamesrvAddr(address);
        puller.setInstanceName("puller" + System.nanoTime());
        puller.start();
        return puller;
    }

    static List<MessageExt> pulled(DefaultMQPullConsumer puller, String topic) {
        List<MessageExt> found = new ArrayList<>();
        try {
            for (MessageQueue queue : puller.fetchSubscribeMessageQueues(topic)) {
                PullResult result = puller.pull(queue, "*", puller.minOffset(queue), 32);
                if (result.getMsgFoundList() != null) {
                    found.addAll(result.getMsgFoundList());
                }
            }
        } catch (Exception error) {
            System.err.println(error);
        }
        return found;
    }

    static void ordered() throws Exception {
        send("Ordered", 20, "A");
        AtomicInteger calls = new AtomicInteger();
        AtomicInteger got = new AtomicInteger();
        DefaultMQPushConsumer consumer = push("ordered", "Ordered", "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            if (calls.getAndIncrement() == 0) {
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            got.addAndGet(messages.size());
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        told("orderly", () -> got.get() == 20);
        consumer.shutdown();
        broadcast();
        litePulled();
    }

    static void broadcast() throws Exception {
        AtomicInteger first = new AtomicInteger();
        AtomicInteger second = new AtomicInteger();
        Set<String> got = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer one = counting("-broadcast", "Ordered", "*", first, got);
        DefaultMQPushConsumer two = counting("-broadcast", "Ordered", "*", second, got);
        told("broadcast", () -> first.get() == 20 && second.get() == 20);
        one.shutdown();
        two.shutdown();
    }

    static void litePulled() throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("lite");
        consumer.setNamesrvAddr(address);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe("Ordered", "*");
        consumer.start();
        int[] got = {0};
        told("lite pull", () -> (got[0] += consumer.poll(100).size()) == 20);
        consumer.commitSync();
        consumer.shutdown();
    }

    static void selected() throws Exception {
        AtomicInteger got = new AtomicInteger();
        DefaultMQPushConsumer consumer = push("selected", "Shared", "*");
        consumer.subscribe("Shared", MessageSelector.bySql("TAGS = 'B'"));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            got.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        told("push by sql", () -> got.get() == 5);
        consumer.shutdown();
    }

    /** Leaves the queues to the broker, which lets this group pop; version 4 cannot. */
    static boolean leftToBroker(DefaultMQPushConsumer consumer) throws Exception {
        try {
            consumer.getClass().getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
            return true;
        } catch (NoSuchMethodException error) {
            return false;
        }
    }

    static void popped() throws Exception {
        DefaultMQPushConsumer consumer = push("popped", "Popped", "A");
        if (!leftToBroker(consumer)) {
            return;
        }
        send("Popped", 40, "A");
        send("Popped", 5, "B");
        Set<String> got = ConcurrentHashMap.newKeySet();
        AtomicInteger handles = new AtomicInteger();
        List<Integer> times = new CopyOnWriteArrayList<>();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt one : messages) {
                got.add(one.getMsgId());
                handles.addAndGet(one.getProperty("POP_CK") == null ? 0 : 1);
                if ("body 7".equals(new String(one.getBody()))) {
                    times.add(one.getReconsumeTimes());
                    if (one.getReconsumeTimes() == 0) {
                        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                    }
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        told("pop by tag", () -> got.size() == 40 && handles.get() >= 40);
        told("pop retry", () -> times.equals(Arrays.asList(0, 1)));
        consumer.shutdown();
    }

    /** Asks for replies, of which the last one never comes. */
    static void requested() throws Exception {
        send("Requested", 1, "A");
        DefaultMQProducer replier = producer("repliers", false);
        AtomicInteger got = new AtomicInteger();
        DefaultMQPushConsumer consumer = push("replying", "Requested", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt one = messages.get(0);
            String body = new String(one.getBody());
            try {
                if (body.startsWith("ping")) {
                    Message reply = MessageUtil.createReplyMessage(one, ("re: " + body).getBytes());
                    replier.send(reply, WAIT_MS);
                }
            } catch (Exception error) {
                System.err.println(error);
            }
            got.incrementAndGet();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        told("replier is there", () -> got.get() == 1);
        DefaultMQProducer asker = producer("askers", false);
        Answer silence = new Answer();
        asker.request(new Message("Requested", "A", "key", "silence".getBytes()), silence, 1_000);
        Answer later = new Answer();
        asker.request(new Message("Requested", "A", "key", "ping 1".getBytes()), later, WAIT_MS);
        told("reply to a callback", () -> "re: ping 1".equals(later.told.getNow("")));
        if (!isNew) {
            waitedFor(asker);
        }
        told("no reply to a callback", () -> "CODE: 10006  DESC: request timeout, no reply message."
            .equals(silence.told.getNow("")));
        asker.shutdown();
        replier.shutdown();
        consumer.shutdown();
    }

    /** Waits for replies; 5.3.1 and later do not, they fail once the request is sent. */
    static void waitedFor(DefaultMQProducer asker) throws Exception {
        Message ping = new Message("Requested", "A", "key", "ping 2".getBytes());
        Message reply = asker.request(ping, WAIT_MS);
        String correlation = ping.getProperty("CORRELATION_ID");
        told("reply", () -> "re: ping 2".equals(new String(reply.getBody()))
            && correlation != null && correlation.equals(reply.getProperty("CORRELATION_ID")));
        try {
            asker.request(new Message("Requested", "A", "key", "silence".getBytes()), 500);
            told("no reply", () -> false);
        } catch (RequestTimeoutException error) {
            told("no reply", () -> error.getErrorMessage().contains("wait reply message timeout"));
        }
    }

    /** Keeps a reply or an error; clients also call it without a reply, once the request is sent. */
    static class Answer implements RequestCallback {
        final CompletableFuture<String> told = new CompletableFuture<>();

        @Override
        public void onSuccess(Message reply) {
            if (reply != null) {
                told.complete(new String(reply.getBody()));
            }
        }

        @Override
        public void onException(Throwable error) {
            told.complete(error.getMessage());
        }
    }

    /** Sends and consumes with traces; prints what RocketMQ itself reads of them. */
    static void traced() throws Exception {
        DefaultMQProducer producer = producer("tracing", true);
        String id = producer.send(new Message("Traced", "A", "key", "body".getBytes())).getMsgId();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("traced", true, null);
        consumer.setNamesrvAddr(address);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe("Traced", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            context.setDelayLevelWhenNextConsume(1);
            return messages.get(0).getReconsumeTimes() > 0
                ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        DefaultMQPullConsumer puller = puller();
        told("traces", () -> traces(puller, id).size() == 5);
        for (TraceContext one : traces(puller, id)) {
            System.out.println("trace\t" + id + "\t" + one.getTraceType() + "\t" + one.getTimeStamp()
                + "\t" + one.getGroupName() + "\t" + one.getCostTime() + "\t" + one.isSuccess() + "\t"
                + one.getTraceBeans().get(0).getRetryTimes() + "\t" + one.getRequestId());
        }
        puller.shutdown();
        consumer.shutdown();
        producer.shutdown();
    }

    static List<TraceContext> traces(DefaultMQPullConsumer puller, String id) {
        List<TraceContext> found = new ArrayList<>();
        for (MessageExt message : pulled(puller, "RMQ_SYS_TRACE_TOPIC")) {
            for (TraceContext one
                    : TraceDataEncoder.decoderFromTraceDataString(new String(message.getBody()))) {
                if (id.equals(one.getTraceBeans().get(0).getMsgId())) {
                    found.add(one);
                }
            }
        }
        return found;
    }

    static DefaultMQPushConsumer counting(
            String group, String topic, String tags, AtomicInteger count, Set<String> got)
            throws Exception {
        DefaultMQPushConsumer consumer = push(group, topic, tags);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt one : messages) {
                got.add(one.getMsgId());
            }
            count.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    /** Returns a consumer; a group whose name begins with "-" broadcasts. */
    static DefaultMQPushConsumer push(String group, String topic, String tags) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.setInstanceName(group + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (group.startsWith("-")) {
            for (Method method : consumer.getClass().getMethods()) {
                if (method.getName().equals("setMessageModel")) { // Its enum moved in version 5.
                    method.invoke(consumer, method.getParameterTypes()[0].getEnumConstants()[0]);
                }
            }
        }
        consumer.subscribe(topic, tags);
        return consumer;
    }

    static DefaultMQProducer producer(String group, boolean isTraced) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group, isTraced, null);
        producer.setNamesrvAddr(address);
        producer.setInstanceName("producer" + System.nanoTime());
        producer.start();
        return producer;
    }

    static void send(String topic, int count, String tag) throws Exception {
        DefaultMQProducer producer = producer("producers", false);
        for (int number = 0; number < count; number++) {
            producer.send(new Message(topic, tag, "key", ("body " + number).getBytes()));
        }
        producer.shutdown();
    }

    static void told(String name, BooleanSupplier isDone) throws Exception {
        long end = System.currentTimeMillis() + WAIT_MS;
        boolean isOk = isDone.getAsBoolean();
        while (!isOk && System.currentTimeMillis() < end) {
            Thread.sleep(50);
            isOk = isDone.getAsBoolean();
        }
        System.out.println((isOk ? "ok " : "failed ") + name);
        System.out.flush();
    }
}
