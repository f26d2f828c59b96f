package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// afterMilli asks for one timestamp by a plain ListOffsets: kadm would turn "none" into the end of the partition.
func afterMilli(ctx context.Context, cl *kgo.Client, topic string, partition int32, millis int64) (kadm.ListedOffsets, error) {
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	ofTopic := kmsg.NewListOffsetsRequestTopic()
	ofTopic.Topic = topic
	ofPartition := kmsg.NewListOffsetsRequestTopicPartition()
	ofPartition.Partition, ofPartition.Timestamp = partition, millis
	ofTopic.Partitions = append(ofTopic.Partitions, ofPartition)
	request.Topics = append(request.Topics, ofTopic)
	answer, err := request.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	listed := kadm.ListedOffsets{topic: {}}
	for _, each := range answer.Topics[0].Partitions {
		listed[topic][each.Partition] = kadm.ListedOffset{Topic: topic, Partition: each.Partition, Timestamp: each.Timestamp,
			Offset: each.Offset, LeaderEpoch: each.LeaderEpoch, Err: kerr.ErrorForCode(each.ErrorCode)}
	}
	return listed, nil
}
