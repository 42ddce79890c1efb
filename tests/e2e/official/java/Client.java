// RocketMQ's own client for Java, as a process of its own; see ../client.py, which does the same.

import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.TransactionChecker;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

public final class Client {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final boolean TLS = "1".equals(System.getenv("OFFICIAL_TLS"));
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final Gson GSON = new Gson();
    private static final double PAUSE_S = 0.02;
    private static final int CALL_S = 20;

    private final JsonObject given;
    private final CountDownLatch stop;

    private Client(JsonObject given, CountDownLatch stop) {
        this.given = given;
        this.stop = stop;
    }

    // -- what was given, what is told --------------------------------------------------------------

    private String text(String name, String otherwise) {
        return given.has(name) ? given.get(name).getAsString() : otherwise;
    }

    private int number(String name, int otherwise) {
        return given.has(name) ? given.get(name).getAsInt() : otherwise;
    }

    private static synchronized void say(Map<String, Object> fields) {
        OUT.println(GSON.toJson(fields));
    }

    private void tell(Object... pairs) {
        Map<String, Object> fields = new LinkedHashMap<>();
        for (int index = 0; index < pairs.length; index += 2) {
            fields.put((String) pairs[index], pairs[index + 1]);
        }
        tell(fields);
    }

    private void tell(Map<String, Object> fields) {
        say(Map.of("id", number("id", 0), "told", fields));
    }

    private static Map<String, Object> seen(MessageView got) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("topic", got.getTopic());
        fields.put("body", StandardCharsets.UTF_8.decode(got.getBody()).toString());
        fields.put("tag", got.getTag().orElse(null));
        fields.put("keys", new TreeSet<>(got.getKeys()));
        fields.put("properties", got.getProperties());
        fields.put("message_id", got.getMessageId().toString());
        fields.put("attempt", got.getDeliveryAttempt());
        fields.put("group", got.getMessageGroup().orElse(null));
        fields.put("corrupted", false); // The client gives no such message to its user.
        fields.put("at_ms", System.currentTimeMillis());
        return fields;
    }

    // -- clients and messages ------------------------------------------------------------------------

    private ClientConfiguration configuration() {
        var made = ClientConfiguration.newBuilder().setEndpoints(text("endpoint", "")).enableSsl(TLS)
            .setRequestTimeout(Duration.ofSeconds(CALL_S)).setNamespace(text("namespace", ""));
        if (given.has("access_key")) {
            made.setCredentialProvider(
                new StaticSessionCredentialsProvider(text("access_key", ""), text("secret_key", "")));
        }
        return made.build();
    }

    private Producer producer(TransactionChecker checker) throws Exception {
        var made = PROVIDER.newProducerBuilder().setClientConfiguration(configuration()).setTopics(text("topic", ""));
        return (checker == null ? made : made.setTransactionChecker(checker)).build();
    }

    private Map<String, FilterExpression> wanted() {
        var kind = text("kind", "tag").equals("sql") ? FilterExpressionType.SQL92 : FilterExpressionType.TAG;
        return Map.of(text("topic", ""), new FilterExpression(text("expression", "*"), kind));
    }

    private Message message(JsonObject one) {
        String body = one.get("body").getAsString().repeat(one.has("times") ? one.get("times").getAsInt() : 1);
        MessageBuilder made = PROVIDER.newMessageBuilder().setTopic(text("topic", ""))
            .setBody(body.getBytes(StandardCharsets.UTF_8));
        if (one.has("tag")) made.setTag(one.get("tag").getAsString());
        if (one.has("keys")) made.setKeys(GSON.fromJson(one.get("keys"), String[].class));
        if (one.has("group")) made.setMessageGroup(one.get("group").getAsString());
        if (one.has("priority")) made.setPriority(one.get("priority").getAsInt());
        if (one.has("deliver_at_ms")) made.setDeliveryTimestamp(one.get("deliver_at_ms").getAsLong());
        if (one.has("properties")) {
            one.getAsJsonObject("properties").entrySet()
                .forEach(each -> made.addProperty(each.getKey(), each.getValue().getAsString()));
        }
        return made.build();
    }

    private Message message(String body) {
        JsonObject one = new JsonObject();
        one.addProperty("body", body);
        return message(one);
    }

    // -- commands ------------------------------------------------------------------------------------

    private void send() throws Exception {
        try (Producer producer = producer(null)) {
            for (JsonElement one : given.getAsJsonArray("messages")) {
                var receipt = producer.send(message(one.getAsJsonObject()));
                String handle = receipt.getRecallHandle();
                tell("message_id", receipt.getMessageId().toString(), "recall_handle", handle == null ? "" : handle);
            }
        }
    }

    private void recall() throws Exception {
        try (Producer producer = producer(null)) {
            var found = producer.recallMessage(text("topic", ""), text("recall_handle", ""));
            tell("message_id", found.getMessageId().toString());
        }
    }

    private TransactionResolution check(MessageView half) {
        String body = StandardCharsets.UTF_8.decode(half.getBody()).toString();
        tell("checked", body, "message_id", half.getMessageId().toString());
        if (body.contains("commit")) return TransactionResolution.COMMIT;
        return body.contains("roll") ? TransactionResolution.ROLLBACK : TransactionResolution.UNKNOWN;
    }

    private void transact() throws Exception {
        try (Producer producer = producer(this::check)) {
            for (JsonElement each : given.getAsJsonArray("bodies")) {
                String body = each.getAsString();
                var transaction = producer.beginTransaction();
                var receipt = producer.send(message(body), transaction);
                tell("sent", body, "message_id", receipt.getMessageId().toString());
                if (body.equals("commit")) transaction.commit();
                if (body.equals("roll back")) transaction.rollback();
            }
            stop.await();
        }
    }

    private void receive() throws Exception {
        var builder = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration())
            .setConsumerGroup(text("group", "")).setSubscriptionExpressions(wanted())
            .setAwaitDuration(Duration.ofSeconds(2));
        String then = text("then", "ack");
        int left = number("count", 0);
        try (var consumer = builder.build()) {
            while (left > 0 && stop.getCount() > 0) {
                var invisible = Duration.ofSeconds(number("invisible_s", 15));
                for (MessageView got : consumer.receive(number("at_once", 16), invisible)) {
                    tell(seen(got));
                    left--;
                    if (then.equals("ack")) consumer.ack(got);
                    if (then.equals("back")) consumer.changeInvisibleDuration(got, Duration.ofSeconds(1));
                }
            }
        }
    }

    private void push() throws Exception {
        List<PushConsumer> consumers = new ArrayList<>();
        Map<String, Integer> tries = new ConcurrentHashMap<>();
        for (int each = 0; each < number("consumers", 1); each++) {
            String name = "c" + each;
            consumers.add(PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration())
                .setConsumerGroup(text("group", "")).setSubscriptionExpressions(wanted())
                .setMessageListener(got -> {
                    var fields = seen(got);
                    fields.put("consumer", name);
                    tell(fields);
                    boolean failed = tries.merge(got.getMessageId().toString(), 1, Integer::sum) <= number("fails", 0);
                    return failed ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
                }).build());
        }
        tell("started", true);
        stop.await();
        for (PushConsumer consumer : consumers) consumer.close();
    }

    private void keepSending() throws Exception {
        long pauseMs = Math.round(1000 * (given.has("pause_s") ? given.get("pause_s").getAsDouble() : PAUSE_S));
        Producer producer = producer(null);
        for (int each = number("begin", 0); !stop.await(pauseMs, TimeUnit.MILLISECONDS); each++) {
            try {
                producer.send(message(Integer.toString(each)));
                tell("sent", each);
            } catch (Exception error) {
                tell("failed", each, "why", error.toString());
            }
        }
        producer.close();
    }

    private void carryOut() {
        int id = number("id", 0);
        try {
            switch (text("do", "")) {
                case "send" -> send();
                case "recall" -> recall();
                case "transact" -> transact();
                case "receive" -> receive();
                case "push" -> push();
                case "keep_sending" -> keepSending();
                default -> throw new IllegalArgumentException("no such command");
            }
            say(Map.of("id", id, "done", true));
        } catch (Throwable error) {
            say(Map.of("id", id, "failed", error.toString()));
        }
    }

    public static void main(String[] arguments) throws Exception {
        Map<Integer, CountDownLatch> stops = new ConcurrentHashMap<>();
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonObject given = GSON.fromJson(line, JsonObject.class);
            if (given.get("do").getAsString().equals("stop")) {
                stops.get(given.get("which").getAsInt()).countDown();
                continue;
            }
            CountDownLatch stop = new CountDownLatch(1);
            stops.put(given.get("id").getAsInt(), stop);
            new Thread(new Client(given, stop)::carryOut).start();
        }
        Runtime.getRuntime().halt(0);
    }
}
