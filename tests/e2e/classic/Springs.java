package springs;

import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.spring.annotation.ConsumeMode;
import org.apache.rocketmq.spring.annotation.RocketMQMessageListener;
import org.apache.rocketmq.spring.annotation.RocketMQTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionState;
import org.apache.rocketmq.spring.core.RocketMQReplyListener;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;
import org.springframework.stereotype.Component;

/** A Spring Boot program with RocketMQ's starter: prints "ok NAME" or "failed NAME WHY" for each case. */
@SpringBootApplication
public class Springs {
    static final BlockingQueue<String> TAGGED = new LinkedBlockingQueue<>();
    static final BlockingQueue<Integer> RETRIED = new LinkedBlockingQueue<>();
    static final BlockingQueue<String> DECIDED = new LinkedBlockingQueue<>();
    static final List<String> ORDERED = new CopyOnWriteArrayList<>();
    static final CountDownLatch ALL_ORDERED = new CountDownLatch(20);
    static final int WAIT_S = 60;

    public static class Order {
        public String name;
        public int amount;
    }

    @Component
    @RocketMQMessageListener(topic = "Spring", consumerGroup = "spring-readers", selectorExpression = "kept")
    public static class Reader implements RocketMQListener<Order> {
        private final AtomicInteger tries = new AtomicInteger();

        @Override
        public void onMessage(Order order) {
            if (!order.name.equals("retried")) {
                TAGGED.add(order.name + "=" + order.amount);
            } else if (tries.incrementAndGet() == 1) {
                throw new IllegalStateException("the first try fails");
            } else {
                RETRIED.add(order.amount);
            }
        }
    }

    @Component
    @RocketMQMessageListener(topic = "SpringOrdered", consumerGroup = "spring-ordered", consumeMode = ConsumeMode.ORDERLY)
    public static class InOrder implements RocketMQListener<String> {
        @Override
        public void onMessage(String text) {
            ORDERED.add(text);
            ALL_ORDERED.countDown();
        }
    }

    @Component
    @RocketMQMessageListener(topic = "SpringAsked", consumerGroup = "spring-repliers")
    public static class Replier implements RocketMQReplyListener<String, String> {
        @Override
        public String onMessage(String text) {
            return "reply to " + text;
        }
    }

    @Component
    @RocketMQMessageListener(topic = "SpringDecided", consumerGroup = "spring-decided")
    public static class Deciding implements RocketMQListener<String> {
        @Override
        public void onMessage(String text) {
            DECIDED.add(text);
        }
    }

    @RocketMQTransactionListener
    public static class Transactions implements RocketMQLocalTransactionListener {
        @Override
        public RocketMQLocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return RocketMQLocalTransactionState.valueOf((String) argument);
        }

        @Override
        public RocketMQLocalTransactionState checkLocalTransaction(Message message) {
            return RocketMQLocalTransactionState.COMMIT;
        }
    }

    interface Case {
        void run() throws Exception;
    }

    static void check(String name, Case one) {
        try {
            one.run();
            System.out.println("ok " + name);
        } catch (Throwable error) {
            System.out.println("failed " + name + " " + error);
        }
    }

    static void equal(Object found, Object wanted) {
        if (!wanted.equals(found)) {
            throw new AssertionError(found + ", not " + wanted);
        }
    }

    static Order order(String name, int amount) {
        Order order = new Order();
        order.name = name;
        order.amount = amount;
        return order;
    }

    static Map<String, Object> headers(String key) {
        return Map.of("KEYS", key);
    }

    public static void main(String[] arguments) throws Exception {
        SpringApplication program = new SpringApplication(Springs.class);
        program.setDefaultProperties(Map.of(
            "rocketmq.name-server", arguments[0], "rocketmq.producer.group", "spring-writers",
            "spring.main.banner-mode", "off", "logging.level.root", "ERROR"));
        var context = program.run();
        RocketMQTemplate template = context.getBean(RocketMQTemplate.class);
        template.syncSend("Spring:kept", order("retried", 5)); // Its second try comes after 10 s.
        check("sync send", () -> {
            SendResult sent = template.syncSend("Spring:kept", order("first", 1));
            equal(sent.getSendStatus(), SendStatus.SEND_OK);
            template.convertAndSend("Spring:dropped", order("other tag", 1));
            equal(TAGGED.poll(WAIT_S, TimeUnit.SECONDS), "first=1");
        });
        check("async and one-way send", () -> {
            CountDownLatch stored = new CountDownLatch(1);
            template.asyncSend("Spring:kept", order("async", 2), new SendCallback() {
                @Override
                public void onSuccess(SendResult sent) {
                    stored.countDown();
                }

                @Override
                public void onException(Throwable error) {
                }
            });
            equal(stored.await(WAIT_S, TimeUnit.SECONDS), true);
            equal(TAGGED.poll(WAIT_S, TimeUnit.SECONDS), "async=2");
            template.sendOneWay("Spring:kept", order("one-way", 3));
            equal(TAGGED.poll(WAIT_S, TimeUnit.SECONDS), "one-way=3");
        });
        check("batch with headers", () -> {
            List<Message<Order>> some = IntStream.range(0, 3)
                .mapToObj(n -> MessageBuilder.withPayload(order("batch", n)).copyHeaders(headers("b" + n)).build())
                .collect(Collectors.toList());
            equal(template.syncSend("Spring:kept", some).getSendStatus(), SendStatus.SEND_OK);
            List<String> found = new java.util.ArrayList<>();
            for (int n = 0; n < 3; n++) {
                found.add(TAGGED.poll(WAIT_S, TimeUnit.SECONDS));
            }
            found.sort(null);
            equal(found, List.of("batch=0", "batch=1", "batch=2"));
        });
        check("delay", () -> {
            long begun = System.nanoTime();
            template.syncSendDelayTimeSeconds("Spring:kept", order("late", 4), 2);
            equal(TAGGED.poll(WAIT_S, TimeUnit.SECONDS), "late=4");
            equal(System.nanoTime() - begun > 1_500_000_000L, true);
        });
        check("order", () -> {
            for (int n = 0; n < 20; n++) {
                template.syncSendOrderly("SpringOrdered", "o" + n, "one key");
            }
            equal(ALL_ORDERED.await(WAIT_S, TimeUnit.SECONDS), true);
            equal(ORDERED, IntStream.range(0, 20).mapToObj(n -> "o" + n).collect(Collectors.toList()));
        });
        check("request and reply", () -> equal(template.sendAndReceive("SpringAsked", "a question", String.class, 30_000), "reply to a question"));
        check("transaction", () -> {
            template.sendMessageInTransaction("SpringDecided", MessageBuilder.withPayload("rolled back").build(), "ROLLBACK");
            template.sendMessageInTransaction("SpringDecided", MessageBuilder.withPayload("committed").build(), "COMMIT");
            equal(DECIDED.poll(WAIT_S, TimeUnit.SECONDS), "committed");
            equal(DECIDED.poll(1, TimeUnit.SECONDS) == null, true);
        });
        check("retry", () -> equal(RETRIED.poll(WAIT_S, TimeUnit.SECONDS), 5));
        context.close();
        System.exit(0);
    }
}
