import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.GroupSubscribedToTopicException;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka 4.4's producer with its defaults, consumer groups of several members, and the group APIs of its AdminClient. Usage: GroupSuite BOOTSTRAP. */
public final class GroupSuite {
    private static final Checks CHECKS = new Checks("java-groups");
    private static final int PARTITIONS = 4;
    private static String bootstrap;
    private static Admin admin;

    public static void main(String[] args) {
        bootstrap = args[0];
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "default.api.timeout.ms", 30000));
        CHECKS.check("default producer: idempotent, dense offsets, in order", GroupSuite::defaultProducer);
        CHECKS.check("default producer: a record too large is refused, the next one is not", GroupSuite::tooLarge);
        CHECKS.check("topic with LogAppendTime", GroupSuite::logAppendTime);
        CHECKS.check("topic with its own compression.type", GroupSuite::recompressed);
        CHECKS.check("seek, position, committed, times, read_committed", GroupSuite::positions);
        CHECKS.check("two members share, one closes", () -> share("closing", CloseOptions.GroupMembershipOperation.LEAVE_GROUP, List.of()));
        CHECKS.check("two members share, one vanishes", () -> share("vanishing", CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP, List.of()));
        CHECKS.check("two members share, cooperative", () -> share("cooperative", CloseOptions.GroupMembershipOperation.LEAVE_GROUP,
            List.of("org.apache.kafka.clients.consumer.CooperativeStickyAssignor")));
        CHECKS.check("a static member comes back to its partitions", GroupSuite::staticMember);
        CHECKS.check("groups: list, describe, offsets, refused while in use, delete", GroupSuite::groups);
        CHECKS.finish();
    }

    private static void make(String topic, Map<String, String> configs) throws Exception {
        Checks.get(admin.createTopics(List.of(new NewTopic(topic, PARTITIONS, (short) 1).configs(configs))).all());
    }

    private static KafkaProducer<String, String> producer(Object... settings) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        for (int i = 0; i < settings.length; i += 2) {
            all.put((String) settings[i], settings[i + 1]);
        }
        return new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
    }

    private static KafkaConsumer<String, String> consumer(String group, Object... settings) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "group.id", group, "auto.offset.reset", "earliest",
            "enable.auto.commit", false, "session.timeout.ms", 6000, "heartbeat.interval.ms", 500));
        for (int i = 0; i < settings.length; i += 2) {
            all.put((String) settings[i], settings[i + 1]);
        }
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    private static List<RecordMetadata> send(String topic, int count) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var producer = producer()) {
            for (int i = 0; i < count; i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, i % PARTITIONS, "k" + i, "v" + i)));
            }
        }
        List<RecordMetadata> done = new ArrayList<>();
        for (var each : sent) {
            done.add(each.get(30, TimeUnit.SECONDS));
        }
        return done;
    }

    /** Polls until `count` records are there or time is up. */
    private static List<ConsumerRecord<String, String>> read(KafkaConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> all = new ArrayList<>();
        long deadline = System.nanoTime() + 30_000_000_000L;
        while (all.size() < count && System.nanoTime() < deadline) {
            consumer.poll(Duration.ofMillis(200)).forEach(all::add);
        }
        Checks.equal(count, all.size(), "records read");
        return all;
    }

    private static void defaultProducer() throws Exception {
        make("defaults-produced", Map.of());
        int count = 20_000;
        List<RecordMetadata> done = send("defaults-produced", count);
        for (int i = 0; i < count; i++) {
            Checks.equal((long) (i / PARTITIONS), done.get(i).offset(), "offset of record " + i);
            Checks.equal(i % PARTITIONS, done.get(i).partition(), "partition of record " + i);
        }
        try (var consumer = consumer("defaults")) {
            consumer.subscribe(List.of("defaults-produced"));
            Map<Integer, Integer> next = new TreeMap<>();
            for (var record : read(consumer, count)) {
                int n = next.merge(record.partition(), 1, Integer::sum) - 1;
                Checks.equal("v" + (n * PARTITIONS + record.partition()), record.value(), "value at " + record.partition() + "/" + record.offset());
            }
        }
    }

    private static void tooLarge() throws Exception {
        make("small", Map.of("max.message.bytes", "2000"));
        try (var producer = producer()) {
            producer.send(new ProducerRecord<>("small", 0, "k", "v")).get(30, TimeUnit.SECONDS);
            Checks.fails(RecordTooLargeException.class, () -> producer.send(new ProducerRecord<>("small", 0, "k", "v".repeat(5000))).get(30, TimeUnit.SECONDS));
            Checks.equal(1L, producer.send(new ProducerRecord<>("small", 0, "k", "v")).get(30, TimeUnit.SECONDS).offset(), "offset behind the refused one");
        }
    }

    private static void logAppendTime() throws Exception {
        make("append-time", Map.of("message.timestamp.type", "LogAppendTime"));
        long before = System.currentTimeMillis() - 1;
        try (var producer = producer(); var consumer = consumer("append-time", "check.crcs", true)) {
            long answered = producer.send(new ProducerRecord<>("append-time", 0, 5L, "k", "v")).get(30, TimeUnit.SECONDS).timestamp();
            consumer.subscribe(List.of("append-time"));
            var record = read(consumer, 1).get(0);
            Checks.equal("LogAppendTime", record.timestampType().toString(), "type");
            Checks.require(record.timestamp() >= before && record.timestamp() <= System.currentTimeMillis(), "timestamp " + record.timestamp());
            Checks.equal(answered, record.timestamp(), "timestamp in the answer");
        }
    }

    private static void recompressed() throws Exception {
        for (String codec : List.of("gzip", "snappy", "lz4", "zstd", "uncompressed")) {
            String topic = "recompressed-" + codec;
            make(topic, Map.of("compression.type", codec));
            try (var producer = producer("compression.type", codec.equals("zstd") ? "none" : "zstd", "linger.ms", 50);
                    var consumer = consumer(topic, "check.crcs", true)) {
                for (int i = 0; i < 200; i++) {
                    producer.send(new ProducerRecord<>(topic, 0, "k" + i, "value ".repeat(i % 20)));
                }
                producer.flush();
                consumer.subscribe(List.of(topic));
                int i = 0;
                for (var record : read(consumer, 200)) {
                    Checks.equal("k" + i, record.key(), "key at " + record.offset());
                    Checks.equal("value ".repeat(i % 20), record.value(), "value at " + record.offset());
                    i++;
                }
            }
        }
    }

    private static void positions() throws Exception {
        make("positions", Map.of("retention.ms", "-1"));
        try (var producer = producer()) {
            for (int i = 0; i < 100; i++) {
                producer.send(new ProducerRecord<>("positions", 0, 1_700_000_000_000L + i, "k", "v" + i));
            }
        }
        TopicPartition where = new TopicPartition("positions", 0);
        try (var consumer = consumer("positions", "isolation.level", "read_committed")) {
            consumer.assign(List.of(where));
            Checks.equal(Map.of(where, 0L), consumer.beginningOffsets(List.of(where)), "beginning");
            Checks.equal(Map.of(where, 100L), consumer.endOffsets(List.of(where)), "end, read_committed");
            Checks.equal(42L, consumer.offsetsForTimes(Map.of(where, 1_700_000_000_042L)).get(where).offset(), "offset by time");
            consumer.seek(where, 90);
            var records = read(consumer, 10);
            Checks.equal("v90", records.get(0).value(), "first after seek");
            Checks.equal(100L, consumer.position(where), "position");
            Checks.equal(null, consumer.committed(Set.of(where)).get(where), "nothing committed");
            consumer.commitSync(Map.of(where, new OffsetAndMetadata(95, "with words")));
            OffsetAndMetadata committed = consumer.committed(Set.of(where)).get(where);
            Checks.equal(95L, committed.offset(), "committed");
            Checks.equal("with words", committed.metadata(), "its metadata");
        }
    }

    /** A member that polls in its own thread and remembers what it owns and what it read. */
    private static final class Member implements ConsumerRebalanceListener {
        final Set<TopicPartition> owned = java.util.Collections.synchronizedSet(new HashSet<>());
        final ConcurrentLinkedQueue<ConsumerRecord<String, String>> records = new ConcurrentLinkedQueue<>();
        private final KafkaConsumer<String, String> consumer;
        private final Thread thread;
        private volatile CloseOptions.GroupMembershipOperation end;
        private volatile Throwable failure;

        Member(KafkaConsumer<String, String> consumer, String topic) {
            this.consumer = consumer;
            thread = new Thread(() -> {
                try {
                    consumer.subscribe(List.of(topic), this);
                    while (end == null) {
                        consumer.poll(Duration.ofMillis(100)).forEach(records::add);
                        commit();
                    }
                } catch (Throwable error) {
                    failure = error;
                } finally {
                    consumer.close(CloseOptions.groupMembershipOperation(end == null ? CloseOptions.GroupMembershipOperation.DEFAULT : end));
                }
            });
            thread.start();
        }

        /** In the middle of a cooperative rebalance the commit has to wait for the next call to poll, or for the revocation. */
        private void commit() {
            try {
                consumer.commitSync();
            } catch (RebalanceInProgressException waiting) {
                return;
            }
        }

        void stop(CloseOptions.GroupMembershipOperation how) throws Exception {
            end = how;
            thread.join(30_000);
            Checks.require(!thread.isAlive(), "member did not end");
            if (failure != null) {
                throw new IllegalStateException(failure);
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            consumer.commitSync();
            owned.removeAll(partitions);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            owned.addAll(partitions);
        }
    }

    private static void share(String name, CloseOptions.GroupMembershipOperation how, List<String> assignors) throws Exception {
        String topic = "shared-" + name;
        make(topic, Map.of());
        Object[] settings = assignors.isEmpty() ? new Object[0] : new Object[] {"partition.assignment.strategy", assignors};
        Member first = new Member(consumer(name, settings), topic);
        Checks.eventually("the first member to own everything", 20, () -> first.owned.size() == PARTITIONS);
        send(topic, 400);
        Checks.eventually("400 records", 20, () -> first.records.size() == 400);
        Member second = new Member(consumer(name, settings), topic);
        Checks.eventually("both to own two", 20, () -> first.owned.size() == 2 && second.owned.size() == 2);
        send(topic, 400);
        Checks.eventually("800 records by both", 20, () -> first.records.size() + second.records.size() >= 800);
        first.stop(how);
        send(topic, 400);
        // a member that vanishes is waited for until its session ends
        Checks.eventually("the second to own everything", 30, () -> second.owned.size() == PARTITIONS);
        Checks.eventually("1200 records by both", 30, () -> first.records.size() + second.records.size() >= 1200);
        second.stop(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
        Set<String> places = new TreeSet<>();
        first.records.forEach(each -> places.add(each.partition() + "/" + each.offset()));
        second.records.forEach(each -> places.add(each.partition() + "/" + each.offset()));
        Checks.equal(1200, places.size(), "different records");
        Checks.equal(1200, first.records.size() + second.records.size(), "records, each read once");
    }

    private static void staticMember() throws Exception {
        make("static", Map.of());
        Member first = new Member(consumer("static", "group.instance.id", "one", "session.timeout.ms", 30000), "static");
        Member second = new Member(consumer("static", "group.instance.id", "two", "session.timeout.ms", 30000), "static");
        Checks.eventually("both to own two", 20, () -> first.owned.size() == 2 && second.owned.size() == 2);
        Set<TopicPartition> before = Set.copyOf(second.owned);
        second.stop(CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP);
        Member again = new Member(consumer("static", "group.instance.id", "two", "session.timeout.ms", 30000), "static");
        Checks.eventually("the returned member to own two", 20, () -> again.owned.size() == 2);
        Checks.equal(before, Set.copyOf(again.owned), "partitions of the returned member");
        Checks.equal(2, first.owned.size(), "partitions of the other member");
        first.stop(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
        again.stop(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
    }

    private static ConsumerGroupDescription described(String group) throws Exception {
        return Checks.get(admin.describeConsumerGroups(List.of(group)).all()).get(group);
    }

    private static void groups() throws Exception {
        make("grouped", Map.of());
        send("grouped", 400);
        Member member = new Member(consumer("watched", "client.id", "watcher"), "grouped");
        Checks.eventually("400 records", 20, () -> member.records.size() == 400);
        ConsumerGroupDescription live = described("watched");
        Checks.equal(GroupState.STABLE, live.groupState(), "state");
        Checks.equal("range", live.partitionAssignor(), "assignor");
        Checks.equal(1, live.members().size(), "members");
        var only = live.members().iterator().next();
        Checks.equal("watcher", only.clientId(), "client id");
        Checks.require(only.host().contains("127.0.0.1"), "host " + only.host());
        Checks.equal(PARTITIONS, only.assignment().topicPartitions().size(), "assignment");
        Set<String> names = new HashSet<>();
        for (GroupListing each : Checks.get(admin.listGroups().all())) {
            names.add(each.groupId());
        }
        Checks.require(names.contains("watched"), "groups " + names);
        TopicPartition where = new TopicPartition("grouped", 0);
        Checks.fails(GroupSubscribedToTopicException.class,
            () -> Checks.get(admin.deleteConsumerGroupOffsets("watched", Set.of(where)).all()));
        Checks.fails(GroupNotEmptyException.class, () -> Checks.get(admin.deleteConsumerGroups(List.of("watched")).all()));
        member.stop(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
        Checks.eventually("the group to be empty", 15, () -> described("watched").groupState() == GroupState.EMPTY);
        var offsets = Checks.get(admin.listConsumerGroupOffsets(Map.of("watched", new ListConsumerGroupOffsetsSpec())).all()).get("watched");
        Checks.equal(PARTITIONS, offsets.size(), "partitions with offsets");
        Checks.equal(100L, offsets.get(where).offset(), "committed offset");
        Checks.get(admin.alterConsumerGroupOffsets("watched", Map.of(where, new OffsetAndMetadata(7))).all());
        Checks.get(admin.deleteConsumerGroupOffsets("watched", Set.of(new TopicPartition("grouped", 1))).all());
        offsets = Checks.get(admin.listConsumerGroupOffsets("watched").partitionsToOffsetAndMetadata());
        Checks.equal(7L, offsets.get(where).offset(), "altered offset");
        Checks.equal(null, offsets.get(new TopicPartition("grouped", 1)), "deleted offset");
        Checks.get(admin.deleteConsumerGroups(List.of("watched")).all());
        Checks.fails(GroupIdNotFoundException.class, () -> Checks.get(admin.deleteConsumerGroups(List.of("watched")).all()));
        Checks.fails(GroupIdNotFoundException.class, () -> described("watched"));
    }
}
