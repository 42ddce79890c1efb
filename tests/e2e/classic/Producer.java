import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Sends messages in every form of a classic producer; prints a line for each result. */
public class Producer {
    static String topic;

    static Message message(String tag, String body) {
        return new Message(topic, tag, "key-" + tag, body.getBytes(StandardCharsets.UTF_8));
    }

    static void told(String form, SendResult sent) {
        System.out.println(form + "\t" + sent.getSendStatus() + "\t" + sent.getMsgId() + "\t"
            + sent.getMessageQueue().getQueueId() + "\t" + sent.getQueueOffset());
    }

    public static void main(String[] given) throws Exception {
        topic = given[1];
        DefaultMQProducer producer = new DefaultMQProducer("classic-producers");
        producer.setNamesrvAddr(given[0]);
        producer.setUseTLS(given.length > 2 && given[2].equals("tls"));
        producer.start();
        told("sync", producer.send(message("sync", "one")));
        CountDownLatch done = new CountDownLatch(2);
        for (int i = 0; i < 2; i++) {
            producer.send(message("async", "async " + i), new SendCallback() {
                @Override
                public void onSuccess(SendResult sent) {
                    told("async", sent);
                    done.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    System.out.println("async\t" + error);
                    done.countDown();
                }
            });
        }
        done.await(20, TimeUnit.SECONDS);
        producer.sendOneway(message("oneway", "one way"));
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            batch.add(message("batch", "batch " + i));
        }
        told("batch", producer.send(batch));
        Message later = message("delay", "later");
        later.setDelayTimeLevel(1);
        told("delay", producer.send(later));
        try {
            Message timed = message("timer", "timed");
            Message.class.getMethod("setDelayTimeMs", long.class).invoke(timed, 1_500L);
            told("timer", producer.send(timed));
        } catch (NoSuchMethodException old) {
            System.out.println("timer\tnot in this version");
        }
        for (int i = 0; i < 3; i++) {
            told("order", producer.send(
                message("order", "order " + i), (queues, one, key) -> queues.get((int) key), 1));
        }
        StringBuilder large = new StringBuilder();
        for (int i = 0; i < 100_000; i++) {
            large.append(i % 7);
        }
        told("large", producer.send(message("large", large.toString())));
        TransactionMQProducer deciding = new TransactionMQProducer("classic-deciding");
        deciding.setNamesrvAddr(given[0]);
        deciding.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message one, Object state) {
                return (LocalTransactionState) state;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt one) {
                return LocalTransactionState.UNKNOW;
            }
        });
        deciding.start();
        told("transaction", deciding.sendMessageInTransaction(
            message("tx", "rolled back"), LocalTransactionState.ROLLBACK_MESSAGE));
        told("transaction", deciding.sendMessageInTransaction(
            message("tx", "committed"), LocalTransactionState.COMMIT_MESSAGE));
        deciding.shutdown();
        try {
            topic = "TBW102";
            producer.send(message("refused", "x"));
        } catch (MQBrokerException error) {
            System.out.println("refused\t" + error.getResponseCode());
        }
        producer.shutdown();
        System.exit(0);
    }
}
