import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
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
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumes as programs do; prints one line for each case, "ok NAME" or "failed NAME". */
public class Classic {
    static final long WAIT_MS = 60_000;
    static String address;

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        shared();
        retried();
        ordered();
        broadcast();
        litePulled();
        selected();
        popped();
        System.exit(0);
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
        DefaultMQPullConsumer puller = new DefaultMQPullConsumer("pullers");
        puller.setNamesrvAddr(address);
        puller.start();
        told("dead letter by pull", () -> count(puller, "%DLQ%retried") == 1);
        puller.shutdown();
        consumer.shutdown();
    }

    static int count(DefaultMQPullConsumer puller, String topic) {
        int found = 0;
        try {
            for (MessageQueue queue : puller.fetchSubscribeMessageQueues(topic)) {
                PullResult result = puller.pull(queue, "*", puller.minOffset(queue), 8);
                found += result.getMsgFoundList() == null ? 0 : result.getMsgFoundList().size();
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
    static void popped() throws Exception {
        DefaultMQPushConsumer consumer = push("popped", "Popped", "A");
        try {
            consumer.getClass().getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
        } catch (NoSuchMethodException error) {
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

    static void send(String topic, int count, String tag) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("producers");
        producer.setNamesrvAddr(address);
        producer.setInstanceName("producer" + System.nanoTime());
        producer.start();
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
