import static java.util.concurrent.TimeUnit.SECONDS;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicIdException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.StringSerializer;

/** The AdminClient of Kafka 4.4 on topics, configs, offsets, records and log directories. Usage: AdminSuite BOOTSTRAP. */
public final class AdminSuite {
    private static final Checks CHECKS = new Checks("java-admin");
    private static String bootstrap;
    private static Admin admin;

    public static void main(String[] args) {
        bootstrap = args[0];
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "default.api.timeout.ms", 30000));
        CHECKS.check("describe cluster", AdminSuite::cluster);
        CHECKS.check("create topics: settings, defaults, validate only", AdminSuite::create);
        CHECKS.check("create topics: what is refused", AdminSuite::refusedTopics);
        CHECKS.check("describe and list topics, by name and by id", AdminSuite::describe);
        CHECKS.check("describe many partitions in pages", AdminSuite::describePages);
        CHECKS.check("topic configs: sources, synonyms, documentation", AdminSuite::topicConfigs);
        CHECKS.check("topic configs: incremental alter", AdminSuite::alterConfigs);
        CHECKS.check("broker configs", AdminSuite::brokerConfigs);
        CHECKS.check("create partitions", AdminSuite::partitions);
        CHECKS.check("list offsets with every spec", AdminSuite::offsets);
        CHECKS.check("list offsets of a maximum timestamp inside the log", AdminSuite::maxTimestamp);
        CHECKS.check("delete records", AdminSuite::deleteRecords);
        CHECKS.check("log directories", AdminSuite::logDirs);
        CHECKS.check("delete topics, by name and by id, and create again", AdminSuite::deleteTopics);
        CHECKS.finish();
    }

    private static void make(String topic, int partitions, Map<String, String> configs) throws Exception {
        Checks.get(admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(configs))).all());
        Map<TopicPartition, OffsetSpec> ends = new HashMap<>();
        for (int partition = 0; partition < partitions; partition++) {
            ends.put(new TopicPartition(topic, partition), OffsetSpec.latest());
        }
        Checks.eventually(topic + " to answer", 10, () -> Checks.get(admin.listOffsets(ends).all()).size() == partitions);
    }

    private static void fill(String topic, int partition, int count) throws Exception {
        try (var producer = new KafkaProducer<>(Map.of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < count; i++) {
                producer.send(new ProducerRecord<>(topic, partition, 1_700_000_000_000L + i, "k" + i, "v" + i));
            }
        }
    }

    private static ListOffsetsResultInfo offset(String topic, OffsetSpec spec) throws Exception {
        TopicPartition where = new TopicPartition(topic, 0);
        return Checks.get(admin.listOffsets(Map.of(where, spec)).partitionResult(where));
    }

    private static void cluster() throws Exception {
        var found = admin.describeCluster();
        var nodes = List.copyOf(Checks.get(found.nodes()));
        Checks.equal(1, nodes.size(), "nodes");
        Checks.equal("127.0.0.1", nodes.get(0).host(), "host");
        Checks.equal(bootstrap, nodes.get(0).host() + ":" + nodes.get(0).port(), "address");
        Checks.equal(nodes.get(0), Checks.get(found.controller()), "controller");
        String id = Checks.get(found.clusterId());
        Checks.require(id != null && id.length() == 22 && !Uuid.fromString(id).equals(Uuid.ZERO_UUID), "cluster id " + id);
        Checks.equal(id, Checks.get(admin.describeCluster().clusterId()), "cluster id asked again");
    }

    private static void create() throws Exception {
        var result = admin.createTopics(List.of(new NewTopic("full", 3, (short) 1).configs(Map.of("retention.ms", "86400000", "max.message.bytes", "200000"))));
        Checks.equal(3, Checks.get(result.numPartitions("full")), "partitions");
        Checks.equal(1, Checks.get(result.replicationFactor("full")), "replication factor");
        Checks.require(!Checks.get(result.topicId("full")).equals(Uuid.ZERO_UUID), "a topic id");
        Config config = Checks.get(result.config("full"));
        Checks.equal("86400000", config.get("retention.ms").value(), "retention.ms");
        Checks.equal("200000", config.get("max.message.bytes").value(), "max.message.bytes");
        var defaults = admin.createTopics(List.of(new NewTopic("defaults", Optional.empty(), Optional.empty())));
        Checks.equal(4, Checks.get(defaults.numPartitions("defaults")), "num.partitions");
        Checks.get(admin.createTopics(List.of(new NewTopic("only-asked", 1, (short) 1)), new CreateTopicsOptions().validateOnly(true)).all());
        Checks.require(!Checks.get(admin.listTopics().names()).contains("only-asked"), "validateOnly created a topic");
    }

    private static void refused(Class<? extends Exception> type, NewTopic topic) throws Exception {
        Checks.fails(type, () -> Checks.get(admin.createTopics(List.of(topic)).all()));
    }

    private static void refusedTopics() throws Exception {
        refused(TopicExistsException.class, new NewTopic("full", 1, (short) 1));
        for (String bad : new String[] {"with space", "a/b", ".", "..", "ä", "x".repeat(250)}) {
            refused(InvalidTopicException.class, new NewTopic(bad, 1, (short) 1));
        }
        refused(InvalidPartitionsException.class, new NewTopic("none", 0, (short) 1));
        refused(InvalidReplicationFactorException.class, new NewTopic("three", 1, (short) 3));
        refused(InvalidConfigurationException.class, new NewTopic("foo", 1, (short) 1).configs(Map.of("foo", "bar")));
        refused(InvalidConfigurationException.class, new NewTopic("foo", 1, (short) 1).configs(Map.of("cleanup.policy", "banana")));
        refused(InvalidConfigurationException.class, new NewTopic("foo", 1, (short) 1).configs(Map.of("retention.ms", "-5")));
        refused(InvalidConfigurationException.class, new NewTopic("foo", 1, (short) 1).configs(Map.of("segment.bytes", "many")));
        Set<String> names = Checks.get(admin.listTopics().names());
        Checks.require(!names.contains("foo") && !names.contains("three") && !names.contains("none"), "a refused topic exists: " + names);
        // a request with a good and a bad topic: the good one is made
        var mixed = admin.createTopics(List.of(new NewTopic("good", 1, (short) 1), new NewTopic("b@d", 1, (short) 1)));
        Checks.get(mixed.values().get("good"));
        Checks.fails(InvalidTopicException.class, () -> Checks.get(mixed.values().get("b@d")));
    }

    private static void describe() throws Exception {
        make("described", 2, Map.of());
        TopicDescription byName = Checks.get(admin.describeTopics(List.of("described")).allTopicNames()).get("described");
        Checks.equal(2, byName.partitions().size(), "partitions");
        Checks.equal(false, byName.isInternal(), "internal");
        byName.partitions().forEach(each -> Checks.equal(List.of(each.leader()), each.isr(), "ISR of " + each));
        var byId = Checks.get(admin.describeTopics(TopicCollection.ofTopicIds(List.of(byName.topicId()))).allTopicIds());
        Checks.equal("described", byId.get(byName.topicId()).name(), "name by id");
        Checks.equal(byName.topicId(), Checks.get(admin.listTopics().namesToListings()).get("described").topicId(), "id in the listing");
        Checks.fails(UnknownTopicOrPartitionException.class, () -> Checks.get(admin.describeTopics(List.of("absent")).allTopicNames()));
        Checks.fails(UnknownTopicIdException.class,
            () -> Checks.get(admin.describeTopics(TopicCollection.ofTopicIds(List.of(Uuid.randomUuid()))).allTopicIds()));
        Checks.require(!Checks.get(admin.listTopics().names()).contains("absent"), "describe created a topic");
    }

    private static void describePages() throws Exception {
        make("wide", 25, Map.of());
        var options = new DescribeTopicsOptions().partitionSizeLimitPerResponse(7);
        Checks.equal(25, Checks.get(admin.describeTopics(List.of("wide"), options).allTopicNames()).get("wide").partitions().size(), "partitions");
    }

    private static Config config(ConfigResource resource) throws Exception {
        var options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        return Checks.get(admin.describeConfigs(List.of(resource), options).all()).get(resource);
    }

    private static ConfigResource topic(String name) {
        return new ConfigResource(ConfigResource.Type.TOPIC, name);
    }

    private static void topicConfigs() throws Exception {
        make("configured", 1, Map.of("retention.ms", "1234567", "segment.bytes", "2097152"));
        Config config = config(topic("configured"));
        ConfigEntry retention = config.get("retention.ms");
        Checks.equal("1234567", retention.value(), "retention.ms");
        Checks.equal(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, retention.source(), "its source");
        Checks.equal("retention.ms", retention.synonyms().get(0).name(), "its first synonym");
        Checks.equal(ConfigEntry.ConfigType.LONG, retention.type(), "its type");
        Checks.require(retention.documentation() != null && retention.documentation().length() > 20, "its documentation");
        Checks.equal(ConfigEntry.ConfigSource.DEFAULT_CONFIG, config.get("retention.bytes").source(), "source of retention.bytes");
        Checks.equal(false, config.get("retention.bytes").isSensitive(), "sensitive");
        for (String name : List.of("cleanup.policy", "compression.type", "max.message.bytes", "message.timestamp.type", "min.insync.replicas",
                "segment.ms", "remote.storage.enable", "local.retention.ms", "local.retention.bytes", "flush.messages", "index.interval.bytes")) {
            Checks.require(config.get(name) != null, "no " + name);
        }
        Checks.fails(UnknownTopicOrPartitionException.class, () -> config(topic("absent")));
    }

    private static void alter(ConfigResource resource, AlterConfigOp.OpType op, String name, String value) throws Exception {
        Checks.get(admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(new ConfigEntry(name, value), op)))).all());
    }

    private static void alterConfigs() throws Exception {
        make("altered", 1, Map.of("retention.ms", "1234567"));
        alter(topic("altered"), AlterConfigOp.OpType.SET, "max.message.bytes", "54321");
        Checks.eventually("the new value", 10, () -> config(topic("altered")).get("max.message.bytes").value().equals("54321"));
        Checks.equal("1234567", config(topic("altered")).get("retention.ms").value(), "the other value");
        alter(topic("altered"), AlterConfigOp.OpType.DELETE, "retention.ms", "");
        Checks.eventually("the default", 10, () -> config(topic("altered")).get("retention.ms").value().equals("604800000"));
        alter(topic("altered"), AlterConfigOp.OpType.SET, "cleanup.policy", "delete");
        Checks.fails(InvalidConfigurationException.class, () -> alter(topic("altered"), AlterConfigOp.OpType.SET, "cleanup.policy", "banana"));
        Checks.fails(InvalidConfigurationException.class, () -> alter(topic("altered"), AlterConfigOp.OpType.SET, "no.such.name", "1"));
        Checks.fails(InvalidConfigurationException.class, () -> alter(topic("altered"), AlterConfigOp.OpType.SET, "segment.bytes", "-1"));
        Checks.fails(UnknownTopicOrPartitionException.class, () -> alter(topic("absent"), AlterConfigOp.OpType.SET, "retention.ms", "1"));
        Checks.equal("54321", config(topic("altered")).get("max.message.bytes").value(), "the value after refusals");
    }

    private static void brokerConfigs() throws Exception {
        String id = Checks.get(admin.describeCluster().controller()).idString();
        Config config = config(new ConfigResource(ConfigResource.Type.BROKER, id));
        Checks.equal(id, config.get("node.id").value(), "node.id");
        Checks.require(config.get("listeners").value().contains("127.0.0.1"), "listeners " + config.get("listeners").value());
        Checks.equal(true, config.get("node.id").isReadOnly(), "node.id read only");
        Checks.equal(ConfigEntry.ConfigSource.STATIC_BROKER_CONFIG, config.get("num.partitions").source(), "source of num.partitions");
        Checks.equal("4", config.get("num.partitions").value(), "num.partitions");
    }

    private static void partitions() throws Exception {
        make("growing", 2, Map.of());
        fill("growing", 1, 10);
        Checks.get(admin.createPartitions(Map.of("growing", NewPartitions.increaseTo(5))).all());
        Checks.eventually("five partitions", 10,
            () -> Checks.get(admin.describeTopics(List.of("growing")).allTopicNames()).get("growing").partitions().size() == 5);
        fill("growing", 4, 3);
        TopicPartition last = new TopicPartition("growing", 4);
        Checks.equal(3L, Checks.get(admin.listOffsets(Map.of(last, OffsetSpec.latest())).partitionResult(last)).offset(), "end of the new partition");
        Checks.fails(InvalidPartitionsException.class, () -> Checks.get(admin.createPartitions(Map.of("growing", NewPartitions.increaseTo(3))).all()));
        Checks.fails(InvalidPartitionsException.class, () -> Checks.get(admin.createPartitions(Map.of("growing", NewPartitions.increaseTo(5))).all()));
        Checks.fails(UnknownTopicOrPartitionException.class, () -> Checks.get(admin.createPartitions(Map.of("absent", NewPartitions.increaseTo(3))).all()));
    }

    private static void offsets() throws Exception {
        make("offsets", 1, Map.of("retention.ms", "-1"));
        Checks.equal(0L, offset("offsets", OffsetSpec.latest()).offset(), "end of an empty log");
        Checks.equal(-1L, offset("offsets", OffsetSpec.maxTimestamp()).offset(), "maximum timestamp of an empty log");
        fill("offsets", 0, 100);
        Checks.equal(0L, offset("offsets", OffsetSpec.earliest()).offset(), "earliest");
        Checks.equal(100L, offset("offsets", OffsetSpec.latest()).offset(), "latest");
        Checks.equal(99L, offset("offsets", OffsetSpec.maxTimestamp()).offset(), "maximum timestamp");
        Checks.equal(1_700_000_000_099L, offset("offsets", OffsetSpec.maxTimestamp()).timestamp(), "maximum timestamp's timestamp");
        Checks.equal(0L, offset("offsets", OffsetSpec.earliestLocal()).offset(), "earliest local");
        Checks.equal(-1L, offset("offsets", OffsetSpec.latestTiered()).offset(), "latest tiered, with nothing tiered");
        ListOffsetsResultInfo middle = offset("offsets", OffsetSpec.forTimestamp(1_700_000_000_050L));
        Checks.equal(50L, middle.offset(), "by time: the record, not its batch");
        Checks.equal(1_700_000_000_050L, middle.timestamp(), "by time: its timestamp");
        Checks.equal(0L, offset("offsets", OffsetSpec.forTimestamp(5)).offset(), "by an early time");
        Checks.equal(-1L, offset("offsets", OffsetSpec.forTimestamp(1_700_000_000_100L)).offset(), "by a time behind the end");
    }

    private static void maxTimestamp() throws Exception {
        make("not-monotonic", 1, Map.of("retention.ms", "-1"));
        long base = 1_700_000_000_000L;
        try (var producer = new KafkaProducer<>(Map.of("bootstrap.servers", bootstrap, "batch.size", 1), new StringSerializer(), new StringSerializer())) {
            for (int at : new int[] {10, 70, 30, 70, 20}) {
                producer.send(new ProducerRecord<>("not-monotonic", 0, base + at, "k", "v")).get(30, SECONDS);
            }
        }
        Checks.equal(1L, offset("not-monotonic", OffsetSpec.maxTimestamp()).offset(), "the first of the greatest");
        Checks.equal(1L, offset("not-monotonic", OffsetSpec.forTimestamp(base + 20)).offset(), "the first at or after a time");
        Checks.equal(0L, offset("not-monotonic", OffsetSpec.forTimestamp(base + 10)).offset(), "the first of all");
        Checks.equal(-1L, offset("not-monotonic", OffsetSpec.forTimestamp(base + 71)).offset(), "none");
    }

    private static void deleteRecords() throws Exception {
        make("trimmed", 1, Map.of("retention.ms", "-1"));
        fill("trimmed", 0, 50);
        TopicPartition where = new TopicPartition("trimmed", 0);
        Checks.equal(20L, Checks.get(admin.deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(20))).lowWatermarks().get(where)).lowWatermark(), "low watermark");
        Checks.equal(20L, offset("trimmed", OffsetSpec.earliest()).offset(), "earliest");
        Checks.equal(20L, offset("trimmed", OffsetSpec.forTimestamp(0)).offset(), "by time");
        Checks.equal(20L, Checks.get(admin.deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(10))).lowWatermarks().get(where)).lowWatermark(), "an offset already gone");
        Checks.fails(OffsetOutOfRangeException.class, () -> Checks.get(admin.deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(51))).all()));
        Checks.equal(50L, Checks.get(admin.deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(-1))).lowWatermarks().get(where)).lowWatermark(), "everything");
        Checks.equal(50L, offset("trimmed", OffsetSpec.earliest()).offset(), "earliest of an emptied log");
        fill("trimmed", 0, 1);
        Checks.equal(51L, offset("trimmed", OffsetSpec.latest()).offset(), "latest after one more");
    }

    private static void logDirs() throws Exception {
        int id = Checks.get(admin.describeCluster().controller()).id();
        var dirs = Checks.get(admin.describeLogDirs(List.of(id)).allDescriptions()).get(id);
        Checks.equal(1, dirs.size(), "directories");
        var dir = dirs.values().iterator().next();
        Checks.require(dir.error() == null, "error " + dir.error());
        var replica = dir.replicaInfos().get(new TopicPartition("offsets", 0));
        Checks.require(replica != null && replica.size() > 500, "size of offsets-0: " + replica);
        Checks.require(dir.totalBytes().getAsLong() >= dir.usableBytes().getAsLong() && dir.usableBytes().getAsLong() > 0, "bytes of the disk");
    }

    private static void deleteTopics() throws Exception {
        make("short-lived", 1, Map.of());
        fill("short-lived", 0, 10);
        Uuid first = Checks.get(admin.describeTopics(List.of("short-lived")).allTopicNames()).get("short-lived").topicId();
        Checks.get(admin.deleteTopics(List.of("short-lived")).all());
        Checks.eventually("the topic to be gone", 10, () -> !Checks.get(admin.listTopics().names()).contains("short-lived"));
        Checks.fails(UnknownTopicOrPartitionException.class, () -> Checks.get(admin.deleteTopics(List.of("short-lived")).all()));
        make("short-lived", 1, Map.of());
        Checks.equal(0L, offset("short-lived", OffsetSpec.latest()).offset(), "end of the new topic");
        Uuid second = Checks.get(admin.describeTopics(List.of("short-lived")).allTopicNames()).get("short-lived").topicId();
        Checks.require(!first.equals(second), "the new topic has the old id");
        Checks.fails(UnknownTopicIdException.class, () -> Checks.get(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(first))).all()));
        Checks.get(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(second))).all());
        Checks.eventually("the topic to be gone", 10, () -> !Checks.get(admin.listTopics().names()).contains("short-lived"));
    }
}
