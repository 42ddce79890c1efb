// A grpc-go client that loads a server with requests, in turn, round and round.
//
//	load -target HOST:PORT -method /package.Service/Method -requests FILE
//	     [-connections 8] [-in-flight 8 | -callers N] (-count N | -seconds S) [-rate R]
//	     [-warm N] [-pid PID]
//
// FILE holds requests, each behind its length (four bytes, the lowest first). Without -rate each of connections times in-flight callers waits
// for its answer before it asks again; with -rate calls are due at an even pace, and a call's
// latency runs from when it was due: a server that stalls is charged for all who queued meanwhile.
// With -callers there are so few callers in all, each of which goes from connection to connection.
// Every call carries headers that no other call has, as clients of RocketMQ send them (x-mq-*).
//
// Prints one JSON object: calls, failed, seconds, latencies in ms, and the processor time that the
// process PID took from the first call to the last, but for connecting and warming. Exits with 2 when
// calls failed.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

const queueMax = 1 << 20 // calls due and not yet made; a server this far behind has failed

// bytesCodec hands requests and answers through as they are.
type bytesCodec struct{}

func (bytesCodec) Marshal(value any) ([]byte, error) { return *value.(*[]byte), nil }
func (bytesCodec) Name() string                      { return "proto" }
func (bytesCodec) Unmarshal(data []byte, value any) error {
	*value.(*[]byte) = slices.Clone(data)
	return nil
}

// tally is what one caller counts; callers share nothing while they run.
type tally struct {
	latencies []time.Duration
	failed    int
	why       error
}

type load struct {
	callers  int
	channels []*grpc.ClientConn
	method   string
	requests [][]byte
	numbers  atomic.Int64
}

// tallies returns one for each caller there shall be.
func (l *load) tallies(inFlight int) []tally {
	if l.callers > 0 {
		return make([]tally, l.callers)
	}
	return make([]tally, len(l.channels)*inFlight)
}

// call makes one call of a caller, due at a time.
func (l *load) call(caller int, own *tally, due time.Time) {
	number := l.numbers.Add(1)
	channel := l.channels[caller%len(l.channels)]
	if l.callers > 0 {
		channel = l.channels[number%int64(len(l.channels))]
	}
	headers := metadata.Pairs(
		"x-mq-client-id", fmt.Sprintf("bench@%d", os.Getpid()),
		"x-mq-request-id", fmt.Sprintf("5f0c7c3e-8a1d-4e2b-9c5a-%012x", number),
		"x-mq-date-time", time.Now().UTC().Format("20060102T150405.000000Z"),
		"x-mq-language", "GO",
		"x-mq-client-version", "5.1.0",
		"x-mq-protocol", "v2",
	)
	ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(context.Background(), headers), time.Minute)
	defer cancel()
	var answer []byte
	request := &l.requests[number%int64(len(l.requests))]
	if err := channel.Invoke(ctx, l.method, request, &answer); err != nil {
		own.failed++
		own.why = err
		return
	}
	own.latencies = append(own.latencies, time.Since(due))
}

// closed runs callers that wait for their answers, until count calls were made or a time came.
func (l *load) closed(inFlight int, count int64, end time.Time) []tally {
	tallies := l.tallies(inFlight)
	var begun atomic.Int64
	var callers sync.WaitGroup
	for number := range tallies {
		callers.Add(1)
		go func() {
			defer callers.Done()
			for count > 0 && begun.Add(1) <= count || count == 0 && time.Now().Before(end) {
				l.call(number, &tallies[number], time.Now())
			}
		}()
	}
	callers.Wait()
	return tallies
}

// paced makes calls at an even pace until a time, by as many callers as there may be in flight.
func (l *load) paced(inFlight int, rate float64, begun, end time.Time) []tally {
	tallies := l.tallies(inFlight)
	due := make(chan time.Time, queueMax)
	var callers sync.WaitGroup
	for number := range tallies {
		callers.Add(1)
		go func() {
			defer callers.Done()
			for at := range due {
				l.call(number, &tallies[number], at)
			}
		}()
	}
	for made := 0; ; {
		now := time.Now()
		if !now.Before(end) {
			break
		}
		for wanted := int(now.Sub(begun).Seconds() * rate); made < wanted; made++ {
			due <- begun.Add(time.Duration(float64(made) / rate * float64(time.Second)))
		}
		time.Sleep(200 * time.Microsecond)
	}
	close(due)
	callers.Wait()
	return tallies
}

// connect opens the channels, each with a connection of its own.
func connect(target string, count int) []*grpc.ClientConn {
	channels := make([]*grpc.ClientConn, count)
	for number := range channels {
		channel, err := grpc.NewClient(
			"passthrough:///"+target,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodec(bytesCodec{})),
		)
		check(err)
		channel.Connect()
		channels[number] = channel
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, channel := range channels {
		for state := channel.GetState(); state != connectivity.Ready; state = channel.GetState() {
			if !channel.WaitForStateChange(ctx, state) {
				check(fmt.Errorf("%s does not take %d connections", target, count))
			}
		}
	}
	return channels
}

// unframed returns the requests that lie in a file.
func unframed(content []byte) [][]byte {
	var requests [][]byte
	for len(content) > 0 {
		size := binary.LittleEndian.Uint32(content)
		requests = append(requests, content[4:4+size])
		content = content[4+size:]
	}
	return requests
}

func milliseconds(ordered []time.Duration, share float64) float64 {
	if len(ordered) == 0 {
		return 0
	}
	place := int(math.Ceil(share*float64(len(ordered)))) - 1
	return float64(ordered[max(place, 0)].Microseconds()) / 1000
}

// cpuSeconds returns the processor time a process took so far; see clock_getcpuclockid(3).
func cpuSeconds(pid int) float64 {
	if pid == 0 {
		return 0
	}
	var spent unix.Timespec
	check(unix.ClockGettime(int32(^pid<<3|2), &spent))
	return float64(spent.Nano()) / 1e9
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func main() {
	target := flag.String("target", "", "host:port")
	method := flag.String("method", "", "/package.Service/Method")
	file := flag.String("requests", "", "a file of requests")
	connections := flag.Int("connections", 8, "connections")
	inFlight := flag.Int("in-flight", 8, "callers on each")
	callers := flag.Int("callers", 0, "callers in all, instead of those on each")
	count := flag.Int64("count", 0, "calls in all")
	seconds := flag.Float64("seconds", 3, "how long, where no count is given")
	rate := flag.Float64("rate", 0, "calls due each second; 0: as fast as answers come")
	warm := flag.Int64("warm", 0, "calls in all before those that count")
	pid := flag.Int("pid", 0, "the server's process")
	consumes := flag.Bool("consume", false, "receive and acknowledge; see consume.go")
	flag.Parse()
	content, err := os.ReadFile(*file)
	check(err)
	requests := unframed(content)
	channels := connect(*target, *connections)
	if *consumes {
		consume(channels, requests, *callers, *count, *pid)
		return
	}
	work := &load{callers: *callers, channels: channels, method: *method, requests: requests}
	if *warm > 0 {
		work.closed(*inFlight, *warm, time.Time{})
	}
	spent := -cpuSeconds(*pid)
	begun := time.Now()
	end := begun.Add(time.Duration(*seconds * float64(time.Second)))
	var tallies []tally
	if *rate > 0 {
		tallies = work.paced(*inFlight, *rate, begun, end)
	} else {
		tallies = work.closed(*inFlight, *count, end)
	}
	took := time.Since(begun).Seconds()
	spent += cpuSeconds(*pid)
	var latencies []time.Duration
	failed := 0
	for _, own := range tallies {
		latencies = append(latencies, own.latencies...)
		if failed += own.failed; own.why != nil {
			err = own.why
		}
	}
	slices.Sort(latencies)
	check(json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"calls": float64(len(latencies)), "failed": float64(failed), "seconds": took,
		"p50_ms": milliseconds(latencies, 0.5), "p99_ms": milliseconds(latencies, 0.99),
		"max_ms": milliseconds(latencies, 1), "cpu_seconds": spent,
	}))
	check(err)
}
