import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Producers and push consumers that outlive brokers, told commands as JSON lines.
 *
 * <pre>
 * send     topic, begin, pause_s           keeps sending numbers: {sent, queue, offset} or {failed, why}
 * produce  topic, messages                 {message_id} each; a message has body, tag, keys, properties,
 *                                          group
 * push     topic, group, orderly, whole    what it gets, with tag, keys and properties if whole
 * stop     which                           ends send and push
 * </pre>
 *
 * Clients sign with access_key and secret_key, if these are given.
 */
public class Lives {
    private static final int INTERVAL_MS = 1_000;
    private static final Map<Integer, CountDownLatch> STOPS = new ConcurrentHashMap<>();

    public static void main(String[] none) throws Exception {
        BufferedReader lines = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JSONObject given = JSON.parseObject(line);
            if (given.getString("do").equals("stop")) {
                STOPS.get(given.getIntValue("which")).countDown();
                continue;
            }
            CountDownLatch stop = new CountDownLatch(1);
            STOPS.put(given.getIntValue("id"), stop);
            Thread thread = new Thread(() -> run(given, stop));
            thread.setDaemon(true);
            thread.start();
        }
        System.exit(0);
    }

    private static void run(JSONObject given, CountDownLatch stop) {
        try {
            switch (given.getString("do")) {
                case "push":
                    push(given, stop);
                    break;
                case "produce":
                    produce(given);
                    break;
                default:
                    send(given, stop);
            }
            say(given, "done", true);
        } catch (Exception error) {
            say(given, "failed", error + (error.getCause() == null ? "" : ": " + error.getCause()));
        }
    }

    private static synchronized void say(JSONObject given, String name, Object content) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("id", given.getIntValue("id"));
        line.put(name, content);
        System.out.println(JSON.toJSONString(line));
        System.out.flush();
    }

    private static void tell(JSONObject given, Object... fields) {
        Map<String, Object> told = new LinkedHashMap<>();
        for (int i = 0; i < fields.length; i += 2) {
            told.put((String) fields[i], fields[i + 1]);
        }
        say(given, "told", told);
    }

    private static RPCHook hook(JSONObject given) {
        String key = given.getString("access_key");
        return key == null
            ? null : new AclClientRPCHook(new SessionCredentials(key, given.getString("secret_key")));
    }

    private static DefaultMQProducer producer(JSONObject given) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("producers", hook(given));
        producer.setNamesrvAddr(given.getString("endpoint"));
        producer.setInstanceName("producer-" + given.getIntValue("id"));
        producer.setPollNameServerInterval(INTERVAL_MS);
        producer.setHeartbeatBrokerInterval(INTERVAL_MS);
        producer.setSendMsgTimeout(5_000);
        producer.start();
        return producer;
    }

    private static void produce(JSONObject given) throws Exception {
        DefaultMQProducer producer = producer(given);
        try {
            for (Object each : given.getJSONArray("messages")) {
                JSONObject one = (JSONObject) each;
                tell(given, "message_id", produced(producer, message(given, one), one).getMsgId());
            }
        } finally {
            producer.shutdown();
        }
    }

    private static Message message(JSONObject given, JSONObject one) {
        Message message = new Message(given.getString("topic"), one.getString("tag"),
            one.getString("body").getBytes(StandardCharsets.UTF_8));
        if (one.containsKey("keys")) {
            message.setKeys(one.getJSONArray("keys").toJavaList(String.class));
        }
        if (one.containsKey("properties")) {
            one.getJSONObject("properties").forEach(
                (name, value) -> message.putUserProperty(name, (String) value));
        }
        return message;
    }

    /** Sends a message; those of a group to one queue, as orderly producers do. */
    private static SendResult produced(DefaultMQProducer producer, Message message, JSONObject one)
            throws Exception {
        String group = one.getString("group");
        if (group == null) {
            return producer.send(message);
        }
        MessageAccessor.putProperty(message, "__SHARDINGKEY", group);
        return producer.send(message, (queues, sent, key) ->
            queues.get(Math.floorMod(key.hashCode(), queues.size())), group);
    }

    private static void send(JSONObject given, CountDownLatch stop) throws Exception {
        DefaultMQProducer producer = producer(given);
        int number = given.getIntValue("begin");
        long pauseMs = (long) (1_000 * given.getDoubleValue("pause_s"));
        while (!stop.await(pauseMs, TimeUnit.MILLISECONDS)) {
            String body = Integer.toString(number++);
            Message message = new Message(given.getString("topic"), "tag", "key-" + body,
                body.getBytes(StandardCharsets.UTF_8));
            try {
                SendResult sent = producer.send(message);
                boolean isOk = sent.getSendStatus() == SendStatus.SEND_OK;
                tell(given, isOk ? "sent" : "failed", body, "why", sent.getSendStatus().toString(),
                    "queue", sent.getMessageQueue().getQueueId(), "offset", sent.getQueueOffset());
            } catch (Exception error) {
                tell(given, "failed", body, "why", error.toString());
                stop.await(100, TimeUnit.MILLISECONDS);
            }
        }
        producer.shutdown();
    }

    private static void push(JSONObject given, CountDownLatch stop) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(
            given.getString("group"), hook(given), new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(given.getString("endpoint"));
        consumer.setInstanceName("consumer-" + given.getIntValue("id"));
        consumer.setPollNameServerInterval(INTERVAL_MS);
        consumer.setHeartbeatBrokerInterval(INTERVAL_MS);
        consumer.setPersistConsumerOffsetInterval(INTERVAL_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(given.getString("topic"), "*");
        if (given.getBooleanValue("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                messages.forEach(one -> tell(given, one));
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(one -> tell(given, one));
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        stop.await();
        consumer.shutdown();
    }

    private static void tell(JSONObject given, MessageExt one) {
        if (given.getBooleanValue("whole")) {
            tell(given, "body", new String(one.getBody(), StandardCharsets.UTF_8), "message_id",
                one.getMsgId(), "tag", one.getTags(), "keys", one.getKeys(), "properties",
                one.getProperties(), "topic", one.getTopic());
            return;
        }
        tell(given, "body", new String(one.getBody(), StandardCharsets.UTF_8), "message_id",
            one.getMsgId(), "queue", one.getQueueId(), "offset", one.getQueueOffset());
    }
}
