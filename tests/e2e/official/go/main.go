// RocketMQ's own client for Go, as a process of its own; see ../client.py, which does the same.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const (
	pauseS = 0.02
	callS  = 20
)

type fields = map[string]any

type sent struct {
	Body        string            `json:"body"`
	Times       *int              `json:"times"`
	Tag         *string           `json:"tag"`
	Keys        []string          `json:"keys"`
	Group       *string           `json:"group"`
	Priority    *int32            `json:"priority"`
	DeliverAtMs *int64            `json:"deliver_at_ms"`
	Properties  map[string]string `json:"properties"`
}

type command struct {
	ID           int      `json:"id"`
	Do           string   `json:"do"`
	Which        int      `json:"which"`
	Endpoint     string   `json:"endpoint"`
	AccessKey    string   `json:"access_key"`
	SecretKey    string   `json:"secret_key"`
	Namespace    string   `json:"namespace"`
	Topic        string   `json:"topic"`
	Group        string   `json:"group"`
	Kind         string   `json:"kind"`
	Expression   *string  `json:"expression"`
	Messages     []sent   `json:"messages"`
	Bodies       []string `json:"bodies"`
	RecallHandle string   `json:"recall_handle"`
	Count        int      `json:"count"`
	Then         string   `json:"then"`
	AtOnce       *int32   `json:"at_once"`
	InvisibleS   *int     `json:"invisible_s"`
	Consumers    *int     `json:"consumers"`
	Fails        int      `json:"fails"`
	Begin        int      `json:"begin"`
	PauseS       *float64 `json:"pause_s"`
	stop         chan struct{}
}

var talk sync.Mutex

func say(row fields) {
	line, err := json.Marshal(row)
	if err != nil {
		panic(err)
	}
	talk.Lock()
	defer talk.Unlock()
	fmt.Println(string(line))
}

func (given *command) tell(row fields) {
	say(fields{"id": given.ID, "told": row})
}

func or[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

func text(value *string) any {
	if value == nil {
		return nil
	}
	return *value
}

func seen(got *rmq.MessageView) fields {
	keys := append([]string{}, got.GetKeys()...)
	sort.Strings(keys)
	properties := got.GetProperties()
	if properties == nil {
		properties = map[string]string{}
	}
	return fields{
		"topic": got.GetTopic(), "body": string(got.GetBody()), "tag": text(got.GetTag()), "keys": keys,
		"properties": properties, "message_id": got.GetMessageId(), "attempt": got.GetDeliveryAttempt(),
		"group": text(got.GetMessageGroup()), "corrupted": false, "at_ms": time.Now().UnixMilli(),
	}
}

func (given *command) config() *rmq.Config {
	return &rmq.Config{
		Endpoint: given.Endpoint, NameSpace: given.Namespace, ConsumerGroup: given.Group,
		Credentials: &credentials.SessionCredentials{AccessKey: given.AccessKey, AccessSecret: given.SecretKey},
	}
}

func (given *command) producer(options ...rmq.ProducerOption) (rmq.Producer, error) {
	made, err := rmq.NewProducer(given.config(), append(options, rmq.WithTopics(given.Topic))...)
	if err != nil {
		return nil, err
	}
	// The interface lacks it.
	made.(interface{ SetRequestTimeout(time.Duration) }).SetRequestTimeout(callS * time.Second)
	return made, made.Start()
}

func (given *command) wanted() map[string]*rmq.FilterExpression {
	expression := or(given.Expression, "*")
	if given.Kind == "sql" {
		return map[string]*rmq.FilterExpression{given.Topic: rmq.NewFilterExpressionWithType(expression, rmq.SQL92)}
	}
	return map[string]*rmq.FilterExpression{given.Topic: rmq.NewFilterExpression(expression)}
}

func (given *command) message(one sent) (*rmq.Message, error) {
	made := &rmq.Message{Topic: given.Topic, Body: []byte(strings.Repeat(one.Body, or(one.Times, 1)))}
	if one.Tag != nil {
		made.SetTag(*one.Tag)
	}
	if one.Group != nil {
		made.SetMessageGroup(*one.Group)
	}
	if one.DeliverAtMs != nil {
		made.SetDelayTimestamp(time.UnixMilli(*one.DeliverAtMs))
	}
	made.SetKeys(one.Keys...)
	for name, value := range one.Properties {
		made.AddProperty(name, value)
	}
	if one.Priority != nil {
		return made, made.SetPriority(*one.Priority)
	}
	return made, nil
}

func send(given *command) error {
	producer, err := given.producer()
	if err != nil {
		return err
	}
	for _, one := range given.Messages {
		message, err := given.message(one)
		if err != nil {
			return err
		}
		receipts, err := producer.Send(context.Background(), message)
		if err != nil {
			return err
		}
		given.tell(fields{"message_id": receipts[0].MessageID, "recall_handle": receipts[0].RecallHandle})
	}
	return producer.GracefulStop()
}

func recall(given *command) error {
	producer, err := given.producer()
	if err != nil {
		return err
	}
	found, err := producer.Recall(context.Background(), given.Topic, given.RecallHandle)
	if err != nil {
		return err
	}
	given.tell(fields{"message_id": found})
	return producer.GracefulStop()
}

func transact(given *command) error {
	check := func(half *rmq.MessageView) rmq.TransactionResolution {
		body := string(half.GetBody())
		given.tell(fields{"checked": body, "message_id": half.GetMessageId()})
		if strings.Contains(body, "commit") {
			return rmq.COMMIT
		}
		if strings.Contains(body, "roll") {
			return rmq.ROLLBACK
		}
		return rmq.UNKNOWN
	}
	producer, err := given.producer(rmq.WithTransactionChecker(&rmq.TransactionChecker{Check: check}))
	if err != nil {
		return err
	}
	for _, body := range given.Bodies {
		message, _ := given.message(sent{Body: body})
		transaction := producer.BeginTransaction()
		receipts, err := producer.SendWithTransaction(context.Background(), message, transaction)
		if err != nil {
			return err
		}
		given.tell(fields{"sent": body, "message_id": receipts[0].MessageID})
		switch body {
		case "commit":
			err = transaction.Commit()
		case "roll back":
			err = transaction.RollBack()
		}
		if err != nil {
			return err
		}
	}
	<-given.stop
	return producer.GracefulStop()
}

func (given *command) isStopped() bool {
	select {
	case <-given.stop:
		return true
	default:
		return false
	}
}

func receive(given *command) error {
	consumer, err := rmq.NewSimpleConsumer(given.config(),
		rmq.WithSimpleAwaitDuration(2*time.Second), rmq.WithSimpleSubscriptionExpressions(given.wanted()))
	if err != nil {
		return err
	}
	if err := consumer.Start(); err != nil {
		return err
	}
	invisible := time.Duration(or(given.InvisibleS, 15)) * time.Second
	for left := given.Count; left > 0 && !given.isStopped(); {
		views, err := consumer.Receive(context.Background(), or(given.AtOnce, 16), invisible)
		if status, ok := rmq.AsErrRpcStatus(err); err != nil && (!ok || status.Code != 40401) {
			return err // That there is no message is an error in this client.
		}
		for _, got := range views {
			given.tell(seen(got))
			left--
			switch given.Then {
			case "", "ack":
				err = consumer.Ack(context.Background(), got)
			case "back":
				err = consumer.ChangeInvisibleDuration(got, time.Second)
			}
			if err != nil {
				return err
			}
		}
	}
	return consumer.GracefulStop()
}

func push(given *command) error {
	var consumers []rmq.PushConsumer
	var lock sync.Mutex
	tries := map[string]int{}
	for number := range or(given.Consumers, 1) {
		listener := &rmq.FuncMessageListener{Consume: func(got *rmq.MessageView) rmq.ConsumerResult {
			row := seen(got)
			row["consumer"] = fmt.Sprintf("c%d", number)
			given.tell(row)
			lock.Lock()
			defer lock.Unlock()
			tries[got.GetMessageId()]++
			if tries[got.GetMessageId()] <= given.Fails {
				return rmq.FAILURE
			}
			return rmq.SUCCESS
		}}
		consumer, err := rmq.NewPushConsumer(given.config(), rmq.WithPushAwaitDuration(5*time.Second),
			rmq.WithPushSubscriptionExpressions(given.wanted()), rmq.WithPushMessageListener(listener))
		if err != nil {
			return err
		}
		if err := consumer.Start(); err != nil {
			return err
		}
		consumers = append(consumers, consumer)
	}
	given.tell(fields{"started": true})
	<-given.stop
	for _, consumer := range consumers {
		if err := consumer.GracefulStop(); err != nil {
			return err
		}
	}
	return nil
}

func keepSending(given *command) error {
	producer, err := given.producer()
	if err != nil {
		return err
	}
	pause := time.Duration(or(given.PauseS, pauseS) * float64(time.Second))
	for number := given.Begin; ; number++ {
		select {
		case <-given.stop:
			return producer.GracefulStop()
		case <-time.After(pause):
		}
		message, _ := given.message(sent{Body: strconv.Itoa(number)})
		if _, err := producer.Send(context.Background(), message); err != nil {
			given.tell(fields{"failed": number, "why": err.Error()})
		} else {
			given.tell(fields{"sent": number})
		}
	}
}

var commands = map[string]func(*command) error{
	"send": send, "recall": recall, "transact": transact, "receive": receive, "push": push,
	"keep_sending": keepSending,
}

func main() {
	rmq.EnableSsl = os.Getenv("OFFICIAL_TLS") == "1"
	stops := map[int]chan struct{}{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		given := &command{stop: make(chan struct{})}
		if err := json.Unmarshal(lines.Bytes(), given); err != nil {
			panic(err)
		}
		if given.Do == "stop" {
			close(stops[given.Which])
			continue
		}
		stops[given.ID] = given.stop
		go func() {
			if err := commands[given.Do](given); err != nil {
				say(fields{"id": given.ID, "failed": err.Error()})
			} else {
				say(fields{"id": given.ID, "done": true})
			}
		}()
	}
	os.Exit(0)
}
