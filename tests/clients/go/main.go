// franz-go as an adapter: the verbs are described in ../python/adapter.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// row is one record as the suite writes and reads it.
type row struct {
	Partition int32       `json:"partition"`
	Offset    int64       `json:"offset"`
	Timestamp int64       `json:"timestamp"`
	Key       *string     `json:"key"`
	Value     *string     `json:"value"`
	Headers   [][2]string `json:"headers"`
}

func bytesOf(text *string) []byte {
	if text == nil {
		return nil
	}
	return append([]byte{}, *text...)
}

func textOf(data []byte) *string {
	if data == nil {
		return nil
	}
	text := string(data)
	return &text
}

func client(bootstrap string, more ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap)}, more...)...)
	must(err)
	return made
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	must(err)
	return value
}

func main() {
	bootstrap, verb, rest := os.Args[1], os.Args[2], os.Args[3:]
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	switch verb {
	case "create":
		create(ctx, bootstrap, rest[0], number(rest[1]), rest[2:])
	case "produce":
		produce(ctx, bootstrap, rest[0], rest[1], rest[2])
	case "consume":
		consume(ctx, bootstrap, rest[0], rest[1], rest[2], int(number(rest[3])), int32(number(rest[4])), int32(number(rest[5])))
	case "offsets":
		offsets(ctx, bootstrap, rest[0], int32(number(rest[1])), rest[2:])
	case "move":
		move(ctx, bootstrap, rest[0], rest[1], rest[2], int(number(rest[3])))
	default:
		must(fmt.Errorf("no verb %s", verb))
	}
}

func create(ctx context.Context, bootstrap, topic string, partitions int64, settings []string) {
	cl := client(bootstrap)
	defer cl.Close()
	configs := map[string]*string{}
	for _, each := range settings {
		name, value, _ := strings.Cut(each, "=")
		configs[name] = &value
	}
	answer, err := kadm.NewClient(cl).CreateTopic(ctx, int32(partitions), 1, configs, topic)
	must(err)
	must(answer.Err)
}

func produce(ctx context.Context, bootstrap, topic, codec, path string) {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	cl := client(bootstrap, kgo.ProducerBatchCompression(codecs[codec]), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(32768), kgo.ProducerLinger(20*time.Millisecond))
	defer cl.Close()
	file, err := os.Open(path)
	must(err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	var records []*kgo.Record
	for lines.Scan() {
		var each row
		must(json.Unmarshal(lines.Bytes(), &each))
		record := &kgo.Record{Topic: topic, Partition: each.Partition, Key: bytesOf(each.Key), Value: bytesOf(each.Value),
			Timestamp: time.UnixMilli(each.Timestamp)}
		for _, header := range each.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: header[0], Value: []byte(header[1])})
		}
		records = append(records, record)
	}
	must(lines.Err())
	must(cl.ProduceSync(ctx, records...).FirstErr())
}

func consume(ctx context.Context, bootstrap, topic, group, path string, count int, fetchBytes, partitionBytes int32) {
	options := []kgo.Opt{kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	if fetchBytes > 0 {
		options = append(options, kgo.FetchMaxBytes(fetchBytes), kgo.FetchMaxPartitionBytes(partitionBytes),
			kgo.BrokerMaxReadBytes(max(2*fetchBytes, 100<<20)))
	}
	cl := client(bootstrap, options...)
	out, err := os.Create(path)
	must(err)
	encoder := json.NewEncoder(out)
	seen := 0
	var last []*kgo.Record
	for seen < count {
		poll, cancel := context.WithTimeout(ctx, 30*time.Second)
		fetches := cl.PollRecords(poll, count-seen)
		cancel()
		for _, each := range fetches.Errors() {
			if errors.Is(each.Err, context.DeadlineExceeded) {
				must(fmt.Errorf("nothing more after %d of %d records", seen, count))
			}
			must(each.Err)
		}
		for _, record := range fetches.Records() {
			seen++
			headers := [][2]string{}
			for _, header := range record.Headers {
				headers = append(headers, [2]string{header.Key, string(header.Value)})
			}
			must(encoder.Encode(row{record.Partition, record.Offset, record.Timestamp.UnixMilli(), textOf(record.Key), textOf(record.Value), headers}))
			last = append(last, record)
		}
	}
	must(cl.CommitRecords(ctx, last...))
	must(cl.LeaveGroupContext(ctx))
	cl.Close()
	must(out.Close())
}

func offsets(ctx context.Context, bootstrap, topic string, partition int32, timestamps []string) {
	cl := client(bootstrap)
	defer cl.Close()
	admin := kadm.NewClient(cl)
	found := []*int64{}
	for _, each := range timestamps {
		var listed kadm.ListedOffsets
		var err error
		switch millis := number(each); millis {
		case -1:
			listed, err = admin.ListEndOffsets(ctx, topic)
		case -2:
			listed, err = admin.ListStartOffsets(ctx, topic)
		case -3:
			listed, err = admin.ListMaxTimestampOffsets(ctx, topic)
		default:
			listed, err = afterMilli(ctx, cl, topic, partition, millis)
		}
		must(err)
		offset, ok := listed.Lookup(topic, partition)
		if !ok {
			must(fmt.Errorf("no answer for %s-%d", topic, partition))
		}
		must(offset.Err)
		if offset.Offset < 0 {
			found = append(found, nil)
		} else {
			found = append(found, &offset.Offset)
		}
	}
	must(json.NewEncoder(os.Stdout).Encode(found))
}
