// Uses RocketMQ's classic client for Go as programs do; prints "ok NAME" or "failed NAME WHY" for each case.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const waitFor = 20 * time.Second

var (
	address    = os.Args[1]
	resolver   = primitive.NewPassthroughResolver([]string{address})
	background = context.Background()
)

func main() {
	rlog.SetLogLevel("error")
	rlog.SetOutputPath(os.Args[2])
	created()
	var all sync.WaitGroup
	for _, one := range []func(){sent, ordered, decided, shared, retried, broadcast, pulled} {
		all.Add(1)
		go func() {
			defer all.Done()
			one()
		}()
	}
	all.Wait()
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// told waits until a case is done and prints it, with what was found where it was not.
func told(name string, found func() (any, bool)) {
	end := time.Now().Add(waitFor)
	value, isDone := found()
	for !isDone && time.Now().Before(end) {
		time.Sleep(20 * time.Millisecond)
		value, isDone = found()
	}
	if isDone {
		fmt.Println("ok", name)
	} else {
		fmt.Println("failed", name, value)
	}
}

func same[T comparable](name string, value, expected T) {
	told(name, func() (any, bool) { return value, value == expected })
}

// bodies collects what a consumer gets.
type bodies struct {
	lock sync.Mutex
	all  []string
}

func (b *bodies) add(messages []*primitive.MessageExt) {
	b.lock.Lock()
	defer b.lock.Unlock()
	for _, one := range messages {
		b.all = append(b.all, string(one.Body))
	}
}

func (b *bodies) look() []string {
	b.lock.Lock()
	defer b.lock.Unlock()
	return slices.Clone(b.all)
}

// are tells whether all arrived, each once, in this or any order.
func (b *bodies) are(expected []string, isOrdered bool) func() (any, bool) {
	return func() (any, bool) {
		found := b.look()
		if !isOrdered {
			slices.Sort(found)
			expected = slices.Sorted(slices.Values(expected))
		}
		return found, slices.Equal(found, expected)
	}
}

func numbered(name string, count int) []string {
	var found []string
	for number := range count {
		found = append(found, fmt.Sprintf("%s %d", name, number))
	}
	return found
}

func newProducer(name string, options ...producer.Option) rocketmq.Producer {
	options = append(options, producer.WithNsResolver(resolver), producer.WithGroupName(name), producer.WithInstanceName(name))
	made := must(rocketmq.NewProducer(options...))
	check(made.Start())
	return made
}

// put sends messages that a consumer of a case shall get.
func put(topic, tag string, texts []string) {
	sender := newProducer("for-" + topic + tag)
	for _, text := range texts {
		must(sender.SendSync(background, primitive.NewMessage(topic, []byte(text)).WithTag(tag)))
	}
	check(sender.Shutdown())
}

type listener = func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

func push(name, group, topic, tags string, listen listener, options ...consumer.Option) rocketmq.PushConsumer {
	options = append(options, consumer.WithNsResolver(resolver), consumer.WithGroupName(group), consumer.WithInstance(name),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	made := must(rocketmq.NewPushConsumer(options...))
	check(made.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: tags}, listen))
	check(made.Start())
	return made
}

func into(got ...*bodies) listener {
	return func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, one := range got {
			one.add(messages)
		}
		return consumer.ConsumeSuccess, nil
	}
}

// created makes the topics, each with two queues or one.
func created() {
	tool := must(admin.NewAdmin(admin.WithResolver(resolver)))
	counts := map[string]int{"Sent": 2, "Ordered": 2, "Decided": 2, "Shared": 2, "Retried": 2, "Broadcast": 2, "Pulled": 1, "Deleted": 2}
	for topic, count := range counts {
		check(tool.CreateTopic(background, admin.WithTopicCreate(topic), admin.WithBrokerAddrCreate(address),
			admin.WithReadQueueNums(count), admin.WithWriteQueueNums(count)))
	}
	same("admin create", len(must(tool.FetchPublishMessageQueues(background, "Sent"))), 2)
	check(tool.DeleteTopic(background, admin.WithTopicDelete("Deleted"), admin.WithBrokerAddrDelete(address),
		admin.WithNameSrvAddr([]string{address})))
	listed := must(tool.FetchAllTopicList(background)).TopicList
	same("admin list", slices.Contains(listed, "Sent"), true)
	same("admin delete", slices.Contains(listed, "Deleted"), false)
	check(tool.Close())
}

func sent() {
	sender := newProducer("senders")
	message := func(tag, body string) *primitive.Message {
		return primitive.NewMessage("Sent", []byte(body)).WithTag(tag).WithKeys([]string{"key-" + tag})
	}
	result := must(sender.SendSync(background, message("sync", "sync")))
	same("sync", result.Status, primitive.SendOK)
	answers := make(chan primitive.SendStatus, 1)
	check(sender.SendAsync(background, func(_ context.Context, result *primitive.SendResult, err error) {
		check(err)
		answers <- result.Status
	}, message("async", "async")))
	same("async", <-answers, primitive.SendOK)
	check(sender.SendOneWay(background, message("oneway", "one-way")))
	batch := must(sender.SendSync(background, message("batch", "batch 0"), message("batch", "batch 1")))
	same("batch", batch.Status, primitive.SendOK)
	later := message("delay", "delay").WithDelayTimeLevel(1)
	same("delay", must(sender.SendSync(background, later)).Status, primitive.SendOK)
	var got bodies
	reader := push("reader", "readers", "Sent", "*", into(&got))
	told("sends arrive", got.are([]string{"sync", "async", "one-way", "batch 0", "batch 1", "delay"}, false))
	_, err := sender.SendSync(background, primitive.NewMessage("bad topic", []byte("x")))
	same("refused", err != nil, true)
	check(reader.Shutdown())
	check(sender.Shutdown())
}

func ordered() {
	sender := newProducer("orderers", producer.WithQueueSelector(producer.NewHashQueueSelector()))
	queues := map[int]bool{}
	for _, text := range numbered("ordered", 10) {
		message := primitive.NewMessage("Ordered", []byte(text)).WithShardingKey("order 1")
		queues[must(sender.SendSync(background, message)).MessageQueue.QueueId] = true
	}
	same("one queue a sharding key", len(queues), 1)
	check(sender.Shutdown())
	var got bodies
	isFirst := true
	reader := push("orderly", "orderly", "Ordered", "*",
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			if isFirst {
				isFirst = false
				return consumer.SuspendCurrentQueueAMoment, nil
			}
			got.add(messages)
			return consumer.ConsumeSuccess, nil
		}, consumer.WithConsumerOrder(true), consumer.WithSuspendCurrentQueueTimeMillis(100*time.Millisecond))
	told("orderly", got.are(numbered("ordered", 10), true))
	check(reader.Shutdown())
}

// decider decides a transaction by its body; "later" only when the broker asks.
type decider struct{ asked bodies }

func (d *decider) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	switch string(message.Body) {
	case "committed":
		return primitive.CommitMessageState
	case "rolled back":
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (d *decider) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	d.asked.add([]*primitive.MessageExt{message})
	return primitive.CommitMessageState
}

func decided() {
	var decides decider
	sender := must(rocketmq.NewTransactionProducer(&decides, producer.WithNsResolver(resolver),
		producer.WithGroupName("deciders"), producer.WithInstanceName("decider")))
	check(sender.Start())
	var got bodies
	reader := push("decided", "decided", "Decided", "*", into(&got))
	for _, text := range []string{"committed", "rolled back", "later"} {
		must(sender.SendMessageInTransaction(background, primitive.NewMessage("Decided", []byte(text))))
	}
	told("transaction", got.are([]string{"committed", "later"}, false))
	same("check back", decides.asked.look()[0], "later")
	check(reader.Shutdown())
	check(sender.Shutdown())
}

func shared() {
	var all, first, second bodies
	put("Shared", "A", numbered("first", 10))
	put("Shared", "B", numbered("other tag", 5))
	one := push("one", "sharers", "Shared", "A", into(&all, &first))
	told("push by tag", all.are(numbered("first", 10), false))
	two := push("two", "sharers", "Shared", "A", into(&all, &second))
	expected := numbered("first", 10)
	told("two members share", func() (any, bool) {
		more := fmt.Sprintf("more %d", len(expected))
		expected = append(expected, more)
		put("Shared", "A", []string{more})
		return second.look(), len(second.look()) > 0
	})
	check(two.Shutdown())
	put("Shared", "A", numbered("last", 4))
	expected = append(expected, numbered("last", 4)...)
	told("the rest takes over", func() (any, bool) {
		found := all.look()
		slices.Sort(found)
		return found, slices.Equal(slices.Compact(found), slices.Sorted(slices.Values(expected)))
	})
	check(one.Shutdown())
}

func retried() {
	put("Retried", "A", []string{"again"})
	// Its heartbeat creates the retry topic; the client of the next one finds the topic at its start.
	check(push("before", "retried", "Retried", "none", into()).Shutdown())
	times := make(chan int32, 8)
	reader := push("retried", "retried", "Retried", "*",
		func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			times <- messages[0].ReconsumeTimes
			concurrently, _ := primitive.GetConcurrentlyCtx(ctx)
			concurrently.DelayLevelWhenNextConsume = 1
			if messages[0].ReconsumeTimes == 0 {
				return consumer.ConsumeRetryLater, nil
			}
			return consumer.ConsumeSuccess, nil
		})
	same("delivered", <-times, 0)
	same("retry", <-times, 1)
	check(reader.Shutdown())
}

func broadcast() {
	put("Broadcast", "A", numbered("broadcast", 6))
	var first, second bodies
	options := consumer.WithConsumerModel(consumer.BroadCasting)
	one := push("all-one", "all", "Broadcast", "*", into(&first), options)
	two := push("all-two", "all", "Broadcast", "*", into(&second), options)
	told("broadcast, first member", first.are(numbered("broadcast", 6), false))
	told("broadcast, second member", second.are(numbered("broadcast", 6), false))
	check(one.Shutdown())
	check(two.Shutdown())
}

func puller(name, group string) rocketmq.PullConsumer {
	made := must(rocketmq.NewPullConsumer(consumer.WithNsResolver(resolver), consumer.WithGroupName(group),
		consumer.WithInstance(name), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset)))
	check(made.Subscribe("Pulled", consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}))
	check(made.Start())
	return made
}

func pulled() {
	put("Pulled", "A", numbered("pulled", 6))
	var got, polled bodies
	reader := puller("puller", "pullers")
	result := must(reader.Pull(background, 3))
	got.add(result.GetMessageExts())
	told("pull", got.are(numbered("pulled", 3), true))
	queue := result.GetMessageExts()[0].Queue
	result = must(reader.PullFrom(background, queue, 4, 1))
	same("pull from an offset", string(result.GetMessageExts()[0].Body), "pulled 4")
	check(reader.Shutdown())
	poller := puller("poller", "pollers")
	told("poll", func() (any, bool) {
		request, err := poller.Poll(background, time.Second)
		if err == nil {
			polled.add(request.GetMsgList())
			poller.ACK(background, request, consumer.ConsumeSuccess)
		}
		return polled.are(numbered("pulled", 6), true)()
	})
	check(poller.PersistOffset(background, "Pulled"))
	check(poller.Shutdown())
	again := puller("again", "pollers")
	same("stored offset", must(again.CurrentOffset(queue)), 6)
	check(again.Shutdown())
}
