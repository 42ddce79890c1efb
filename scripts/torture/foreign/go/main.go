// Makes the calls of a plan with grpc-go and prints what came of each; see foreign/calls.py.
//
//	client HOST:PORT < PLAN > RESULTS
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const sizeMax = 16 << 20

type call struct {
	Name        string            `json:"name"`
	Method      string            `json:"method"`
	Requests    [][]byte          `json:"requests"`
	Metadata    map[string]string `json:"metadata"`
	DeadlineMs  int               `json:"deadline_ms"`
	Gzip        bool              `json:"gzip"`
	Stream      bool              `json:"stream"`
	CancelMs    int               `json:"cancel_ms"`
	CancelAfter int               `json:"cancel_after"`
	Times       int               `json:"times"`
}

type result struct {
	Name     string              `json:"name"`
	Codes    []int               `json:"codes"`
	Text     string              `json:"text"`
	Answers  [][]byte            `json:"answers"`
	Trailers map[string][]string `json:"trailers"`
}

type bytesCodec struct{}

func (bytesCodec) Marshal(value any) ([]byte, error) { return *value.(*[]byte), nil }
func (bytesCodec) Name() string                      { return "proto" }
func (bytesCodec) Unmarshal(data []byte, value any) error {
	*value.(*[]byte) = slices.Clone(data)
	return nil
}

// made makes one call, as a stream of answers or as one.
func made(channel *grpc.ClientConn, one call) ([][]byte, metadata.MD, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(one.DeadlineMs)*time.Millisecond)
	defer cancel()
	ctx = metadata.NewOutgoingContext(ctx, metadata.New(one.Metadata))
	if one.CancelMs > 0 {
		time.AfterFunc(time.Duration(one.CancelMs)*time.Millisecond, cancel)
	}
	var options []grpc.CallOption
	if one.Gzip {
		options = append(options, grpc.UseCompressor(gzip.Name))
	}
	if !one.Stream {
		var answer []byte
		var trailers metadata.MD
		err := channel.Invoke(ctx, one.Method, &one.Requests[0], &answer, append(options, grpc.Trailer(&trailers))...)
		if err != nil {
			return nil, trailers, err
		}
		return [][]byte{answer}, trailers, nil
	}
	shape := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	stream, err := channel.NewStream(ctx, shape, one.Method, options...)
	if err != nil {
		return nil, nil, err
	}
	for _, request := range one.Requests {
		if err := stream.SendMsg(&request); err != nil {
			return nil, nil, err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return nil, nil, err
	}
	var answers [][]byte
	for {
		var answer []byte
		if err := stream.RecvMsg(&answer); errors.Is(err, io.EOF) {
			return answers, stream.Trailer(), nil
		} else if err != nil {
			return answers, stream.Trailer(), err
		}
		if answers = append(answers, answer); len(answers) == one.CancelAfter {
			cancel()
		}
	}
}

func main() {
	var plan []call
	check(json.NewDecoder(os.Stdin).Decode(&plan))
	channel, err := grpc.NewClient(
		os.Args[1],
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodec(bytesCodec{}), grpc.MaxCallRecvMsgSize(sizeMax), grpc.MaxCallSendMsgSize(sizeMax),
		),
	)
	check(err)
	var results []result
	for _, one := range plan {
		found := result{Name: one.Name, Codes: make([]int, one.Times)}
		var all sync.WaitGroup
		var last sync.Mutex
		for number := range one.Times {
			all.Add(1)
			go func() {
				defer all.Done()
				answers, trailers, err := made(channel, one)
				last.Lock()
				defer last.Unlock()
				found.Codes[number] = int(status.Code(err))
				found.Text = status.Convert(err).Message()
				found.Answers, found.Trailers = answers, trailers
			}()
		}
		all.Wait()
		results = append(results, found)
	}
	check(json.NewEncoder(os.Stdout).Encode(results))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
