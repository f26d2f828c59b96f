package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// move copies records from one topic to another in transactions that carry the group's offsets; every third is aborted.
func move(ctx context.Context, bootstrap, from, to, group string, count int) {
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(bootstrap), kgo.TransactionalID("franz-go-"+group), kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(from), kgo.DefaultProduceTopic(to), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.FetchMaxBytes(1000), kgo.FetchMaxPartitionBytes(1000))
	must(err)
	defer session.Close()
	moved := 0
	for attempt := 0; moved < count; attempt++ {
		poll, cancel := context.WithTimeout(ctx, 30*time.Second)
		fetches := session.PollRecords(poll, 20)
		cancel()
		for _, each := range fetches.Errors() {
			must(fmt.Errorf("after %d records: %w", moved, each.Err))
		}
		must(session.Begin())
		records := fetches.Records()
		// an abort overtakes records that are still on their way
		sent := kgo.AbortingFirstErrPromise(session.Client())
		for _, record := range records {
			session.Produce(ctx, &kgo.Record{Partition: record.Partition, Value: record.Value}, sent.Promise())
		}
		failed := sent.Err()
		committed, err := session.End(ctx, kgo.TransactionEndTry(attempt%3 != 2))
		must(err)
		if committed {
			must(failed)
			moved += len(records)
		}
	}
}
