package main

// A simple consumer of RocketMQ's own protocol: receives, and acknowledges what it got by one call.
//
//	load -consume -target HOST:PORT -requests FILE -count N [-callers 8] [-pid PID]
//
// FILE holds a TelemetryCommand with settings and a ReceiveMessageRequest. Ends when exactly N messages
// are acknowledged; what is still under way then found nothing and does not count. With -count 0
// callers take whatever is there, until each has found nothing.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
)

const service = "/apache.rocketmq.v2.MessagingService/"
const codeOK = 20000
const consumeMax = 5 * time.Minute

var streamed = grpc.StreamDesc{ServerStreams: true, ClientStreams: true}

type consumer struct {
	requests [][]byte
	wanted   int64
	acked    atomic.Int64
	done     chan struct{}
	once     sync.Once
	ended    time.Time
	mutex    sync.Mutex
	handles  map[string]bool
}

// fields returns the values of a field of a message, which are bytes.
func fields(message []byte, wanted protowire.Number) [][]byte {
	var found [][]byte
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			check(fmt.Errorf("an answer cannot be read"))
		}
		message = message[size:]
		size = protowire.ConsumeFieldValue(number, kind, message)
		if size < 0 {
			check(fmt.Errorf("an answer cannot be read"))
		}
		if number == wanted && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message)
			found = append(found, value)
		}
		message = message[size:]
	}
	return found
}

func one(message []byte, wanted protowire.Number) []byte {
	if found := fields(message, wanted); len(found) > 0 {
		return found[0]
	}
	return nil
}

func code(status []byte) uint64 {
	if _, _, size := protowire.ConsumeTag(status); size > 0 && status[0] == 8 {
		value, _ := protowire.ConsumeVarint(status[size:])
		return value
	}
	return 0
}

func headed() context.Context {
	return metadata.NewOutgoingContext(context.Background(), metadata.Pairs(
		"x-mq-client-id", "bench@consumer", "x-mq-language", "GO", "x-mq-client-version", "5.1.0",
		"x-mq-protocol", "v2",
		"x-mq-date-time", time.Now().UTC().Format("20060102T150405Z"),
	))
}

// introduce sends the settings on a stream that stays open, as every client does first.
func (c *consumer) introduce(channel *grpc.ClientConn) {
	stream, err := channel.NewStream(headed(), &streamed, service+"Telemetry")
	check(err)
	check(stream.SendMsg(&c.requests[0]))
	var answer []byte
	check(stream.RecvMsg(&answer))
	go func() {
		for stream.RecvMsg(&answer) == nil {
		}
	}()
}

// receive returns the entries of an ack of what came.
func (c *consumer) receive(ctx context.Context, channel *grpc.ClientConn) [][]byte {
	stream, err := channel.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, service+"ReceiveMessage")
	if err != nil {
		return nil
	}
	if stream.SendMsg(&c.requests[1]) != nil || stream.CloseSend() != nil {
		return nil
	}
	var entries [][]byte
	for {
		var answer []byte
		if stream.RecvMsg(&answer) != nil {
			return entries
		}
		message := one(answer, 2)
		if message == nil {
			continue
		}
		system := one(message, 3)
		handle := one(system, 12)
		entry := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), one(system, 3))
		entry = protowire.AppendBytes(protowire.AppendTag(entry, 2, protowire.BytesType), handle)
		entries = append(entries, entry)
		c.mutex.Lock()
		known := c.handles[string(handle)]
		c.handles[string(handle)] = true
		c.mutex.Unlock()
		if known || len(handle) == 0 || len(one(message, 4)) == 0 {
			check(fmt.Errorf("a message came twice, or without handle or body"))
		}
	}
}

func (c *consumer) acknowledge(channel *grpc.ClientConn, entries [][]byte) {
	group, topic := one(c.requests[1], 1), one(one(c.requests[1], 2), 1)
	request := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), group)
	request = protowire.AppendBytes(protowire.AppendTag(request, 2, protowire.BytesType), topic)
	for _, entry := range entries {
		request = protowire.AppendBytes(protowire.AppendTag(request, 3, protowire.BytesType), entry)
	}
	var answer []byte
	check(channel.Invoke(headed(), service+"AckMessage", &request, &answer))
	if code(one(answer, 1)) != codeOK || len(fields(answer, 2)) != len(entries) {
		check(fmt.Errorf("not acknowledged: %q", bytes.ToValidUTF8(answer[:min(len(answer), 200)], nil)))
	}
	if c.acked.Add(int64(len(entries))) == c.wanted {
		c.once.Do(func() { c.ended = time.Now(); close(c.done) })
	}
}

func (c *consumer) consume(ctx context.Context, channel *grpc.ClientConn) {
	for ctx.Err() == nil && (c.wanted == 0 || c.acked.Load() < c.wanted) {
		entries := c.receive(ctx, channel)
		if len(entries) > 0 {
			c.acknowledge(channel, entries)
		} else if c.wanted == 0 {
			return
		}
	}
}

// consume runs callers until all is acknowledged, and prints what that took.
func consume(channels []*grpc.ClientConn, requests [][]byte, callers int, count int64, pid int) {
	work := &consumer{requests: requests, wanted: count, done: make(chan struct{}), handles: map[string]bool{}}
	for _, channel := range channels {
		work.introduce(channel)
	}
	ctx, cancel := context.WithTimeout(headed(), consumeMax)
	defer cancel()
	spent := -cpuSeconds(pid)
	begun := time.Now()
	work.ended = begun
	var running sync.WaitGroup
	for number := range max(callers, 1) {
		running.Add(1)
		go func() {
			defer running.Done()
			work.consume(ctx, channels[number%len(channels)])
		}()
	}
	if count > 0 {
		select {
		case <-work.done:
		case <-ctx.Done():
			check(fmt.Errorf("%d of %d messages came", work.acked.Load(), count))
		}
		spent += cpuSeconds(pid)
		cancel()
	}
	running.Wait()
	if count > 0 && work.acked.Load() != count {
		check(fmt.Errorf("%d messages came, %d were there", work.acked.Load(), count))
	}
	check(json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"calls": float64(work.acked.Load()), "failed": 0, "seconds": work.ended.Sub(begun).Seconds(),
		"p50_ms": 0, "p99_ms": 0, "max_ms": 0, "cpu_seconds": spent,
	}))
}
