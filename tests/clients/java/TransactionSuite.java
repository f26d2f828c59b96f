import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureMetadata;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TransactionalIdNotFoundException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka 4.4's transactional producer (second generation of the protocol) and the transaction APIs of its AdminClient. Usage: TransactionSuite BOOTSTRAP. */
public final class TransactionSuite {
    private static final Checks CHECKS = new Checks("java-transactions");
    private static final int PARTITIONS = 3;
    private static String bootstrap;
    private static Admin admin;

    public static void main(String[] args) {
        bootstrap = args[0];
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "default.api.timeout.ms", 30000));
        CHECKS.check("the cluster works with transaction.version 2", TransactionSuite::features);
        CHECKS.check("commits and aborts over several partitions", TransactionSuite::commitsAndAborts);
        CHECKS.check("a transaction without records", TransactionSuite::empty);
        CHECKS.check("interleaved producers: read_committed sees exactly what was committed, in order", TransactionSuite::interleaved);
        CHECKS.check("a newer producer fences the zombie", TransactionSuite::zombie);
        CHECKS.check("a transaction that times out is aborted, and cannot be committed any more", TransactionSuite::timeout);
        CHECKS.check("sendOffsetsToTransaction moves records exactly once", TransactionSuite::sendOffsets);
        CHECKS.check("a reader waits while offsets of its group are undecided", TransactionSuite::undecidedOffsets);
        CHECKS.check("AdminClient: list, describe, fence", TransactionSuite::describe);
        CHECKS.check("AdminClient: describeProducers and abortTransaction", TransactionSuite::abort);
        CHECKS.check("a topic that vanishes does not hold a transaction up", TransactionSuite::vanishing);
        CHECKS.check("idempotent producers are left alone", TransactionSuite::idempotent);
        CHECKS.finish();
    }

    private static void make(String... topics) throws Exception {
        for (String topic : topics) {
            Checks.get(admin.createTopics(List.of(new NewTopic(topic, PARTITIONS, (short) 1))).all());
        }
    }

    private static KafkaProducer<String, String> producer(String transactionalId, Object... settings) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "transactional.id", transactionalId, "linger.ms", 0,
            "max.block.ms", 30000));
        for (int i = 0; i < settings.length; i += 2) {
            all.put((String) settings[i], settings[i + 1]);
        }
        var made = new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
        made.initTransactions();
        return made;
    }

    private static KafkaConsumer<String, String> consumer(String group, String isolation) {
        return new KafkaConsumer<>(Map.of("bootstrap.servers", bootstrap, "group.id", group, "isolation.level", isolation, "auto.offset.reset",
            "earliest", "enable.auto.commit", false, "session.timeout.ms", 6000, "default.api.timeout.ms", 5000), new StringDeserializer(),
            new StringDeserializer());
    }

    /** All values that a reader gets up to the end that its isolation level sees, partition by partition. */
    private static List<String> read(String topic, String isolation) throws Exception {
        List<TopicPartition> all = new ArrayList<>();
        for (int p = 0; p < PARTITIONS; p++) {
            all.add(new TopicPartition(topic, p));
        }
        try (var reader = consumer("reader", isolation)) {
            reader.assign(all);
            reader.seekToBeginning(all);
            Map<TopicPartition, Long> ends = reader.endOffsets(all);
            Map<Integer, List<String>> values = new HashMap<>();
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
            while (all.stream().anyMatch(each -> reader.position(each) < ends.get(each))) {
                Checks.require(System.nanoTime() < deadline, "the end of " + topic + " is not reached: " + ends);
                for (ConsumerRecord<String, String> record : reader.poll(Duration.ofMillis(200))) {
                    values.computeIfAbsent(record.partition(), p -> new ArrayList<>()).add(record.value());
                }
            }
            List<String> joined = new ArrayList<>();
            for (int p = 0; p < PARTITIONS; p++) {
                joined.addAll(values.getOrDefault(p, List.of()));
            }
            return joined;
        }
    }

    private static List<Future<RecordMetadata>> send(KafkaProducer<String, String> producer, String topic, int partition, String... values) {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (String value : values) {
            sent.add(producer.send(new ProducerRecord<>(topic, partition, null, value)));
        }
        producer.flush();
        return sent;
    }

    private static void features() throws Exception {
        FeatureMetadata features = Checks.get(admin.describeFeatures().featureMetadata());
        Checks.equal(2, (int) features.finalizedFeatures().get("transaction.version").maxVersionLevel(), "finalized level");
        Checks.equal(2, (int) features.supportedFeatures().get("transaction.version").maxVersion(), "supported level");
        Checks.require(features.finalizedFeaturesEpoch().orElse(-1L) > 0, "the epoch of the features is " + features.finalizedFeaturesEpoch());
    }

    private static void commitsAndAborts() throws Exception {
        make("several");
        try (var producer = producer("several")) {
            for (int round = 0; round < 6; round++) {
                producer.beginTransaction();
                for (int p = 0; p < PARTITIONS; p++) {
                    send(producer, "several", p, round + "-" + p + "-a", round + "-" + p + "-b");
                }
                if (round % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
        List<String> committed = new ArrayList<>();
        for (int p = 0; p < PARTITIONS; p++) {
            for (int round = 0; round < 6; round += 2) {
                committed.addAll(List.of(round + "-" + p + "-a", round + "-" + p + "-b"));
            }
        }
        Checks.equal(committed, read("several", "read_committed"), "read_committed");
        Checks.equal(36, read("several", "read_uncommitted").size(), "read_uncommitted");
    }

    private static void empty() throws Exception {
        make("empty");
        try (var producer = producer("empty")) {
            producer.beginTransaction();
            producer.commitTransaction();
            producer.beginTransaction();
            producer.abortTransaction();
            producer.beginTransaction();
            send(producer, "empty", 0, "one");
            producer.commitTransaction();
        }
        Checks.equal(List.of("one"), read("empty", "read_committed"), "read_committed");
    }

    private static void interleaved() throws Exception {
        make("interleaved");
        List<KafkaProducer<String, String>> producers = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            producers.add(producer("interleaved-" + i));
        }
        var plain = new KafkaProducer<>(Map.<String, Object>of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer());
        List<String> expected = new ArrayList<>();
        for (int round = 0; round < 25; round++) {
            // a commits everything, b aborts every third, c every second; d stays open over five rounds
            for (int i = 0; i < 4; i++) {
                if (i < 3 || round % 5 == 0) {
                    producers.get(i).beginTransaction();
                }
                String value = round + "-" + i;
                send(producers.get(i), "interleaved", 0, value);
                boolean aborts = i == 1 && round % 3 == 0 || i == 2 && round % 2 == 0 || i == 3 && round / 5 % 2 == 0;
                if (!aborts) {
                    expected.add(value);
                }
                if (i < 3 || round % 5 == 4) {
                    if (aborts) {
                        producers.get(i).abortTransaction();
                    } else {
                        producers.get(i).commitTransaction();
                    }
                }
            }
            plain.send(new ProducerRecord<>("interleaved", 0, null, round + "-plain")).get();
            expected.add(round + "-plain");
        }
        producers.forEach(KafkaProducer::close);
        plain.close();
        Checks.equal(expected, read("interleaved", "read_committed"), "read_committed");
        Checks.equal(125, read("interleaved", "read_uncommitted").size(), "read_uncommitted");
    }

    /** The body must fail because its producer is fenced; which of the two errors says so depends on who noticed. */
    private static void fenced(Checks.Body body) throws Exception {
        try {
            Checks.fails(ProducerFencedException.class, body);
        } catch (AssertionError other) {
            Checks.require(other.getMessage().contains(InvalidProducerEpochException.class.getSimpleName()), other.getMessage());
        }
    }

    private static void zombie() throws Exception {
        make("zombie");
        try (var old = producer("zombie")) {
            old.beginTransaction();
            send(old, "zombie", 0, "old");
            try (var newer = producer("zombie")) {
                fenced(() -> {
                    send(old, "zombie", 0, "late").get(0).get();
                    old.commitTransaction();
                });
                newer.beginTransaction();
                send(newer, "zombie", 0, "new");
                newer.commitTransaction();
            }
        }
        Checks.equal(List.of("new"), read("zombie", "read_committed"), "read_committed");
    }

    /** Begins a transaction that the coordinator aborts before it is ended. */
    private static void letTimeOut(KafkaProducer<String, String> slow) throws Exception {
        var end = Map.of(new TopicPartition("timeout", 0), OffsetSpec.latest());
        slow.beginTransaction();
        var written = send(slow, "timeout", 0, "late").get(0).get().offset();
        Checks.eventually("the abort", 20, () -> Checks.get(admin.listOffsets(end, new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).all())
            .values().iterator().next().offset() == written + 2);
    }

    private static void timeout() throws Exception {
        make("timeout");
        try (var slow = producer("timeout", "transaction.timeout.ms", 1000)) {
            letTimeOut(slow);
            // The abort has raised the epoch as any end does; the client's commit comes too late.
            Checks.fails(InvalidTxnStateException.class, slow::commitTransaction);
        }
        try (var slow = producer("timeout", "transaction.timeout.ms", 1000)) {
            letTimeOut(slow);
            // Whoever wants it aborted has that already, and goes on.
            slow.abortTransaction();
            slow.beginTransaction();
            send(slow, "timeout", 0, "in time");
            slow.commitTransaction();
            letTimeOut(slow);
            fenced(() -> {
                send(slow, "timeout", 0, "too late").get(0).get();
                slow.commitTransaction();
            });
        }
        Checks.equal(List.of("in time"), read("timeout", "read_committed"), "read_committed");
    }

    private static void sendOffsets() throws Exception {
        make("input", "output");
        try (var plain = new KafkaProducer<>(Map.<String, Object>of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < 300; i++) {
                plain.send(new ProducerRecord<>("input", i % PARTITIONS, null, "" + i));
            }
        }
        int moved = 0;
        // every third batch is aborted, and then a new consumer begins at the group's offsets
        for (int attempt = 0; moved < 300; attempt++) {
            Checks.require(attempt < 40, "only " + moved + " records were moved");
            try (var from = consumer("movers", "read_committed"); var to = producer("mover")) {
                from.subscribe(List.of("input"));
                for (int batch = 0; batch < 3; batch++) {
                    var records = from.poll(Duration.ofSeconds(5));
                    if (records.isEmpty()) {
                        break;
                    }
                    to.beginTransaction();
                    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                    int inBatch = 0;
                    for (var record : records) {
                        if (inBatch++ == 25) {
                            break;
                        }
                        to.send(new ProducerRecord<>("output", record.partition(), null, record.value()));
                        offsets.put(new TopicPartition("input", record.partition()), new OffsetAndMetadata(record.offset() + 1));
                    }
                    to.sendOffsetsToTransaction(offsets, from.groupMetadata());
                    if (batch == 2) {
                        to.abortTransaction();
                    } else {
                        to.commitTransaction();
                        moved += Math.min(inBatch, 25);
                    }
                    Set<TopicPartition> mine = from.assignment();
                    var committed = from.committed(new HashSet<>(mine));
                    for (TopicPartition each : mine) {
                        from.seek(each, committed.get(each) == null ? 0 : committed.get(each).offset());
                    }
                }
            }
        }
        List<String> output = read("output", "read_committed");
        Checks.equal(300, output.size(), "records in the output");
        Checks.equal(300, new HashSet<>(output).size(), "different records in the output");
    }

    private static void undecidedOffsets() throws Exception {
        make("undecided");
        var partition = new TopicPartition("undecided", 0);
        try (var producer = producer("undecided"); var reader = consumer("undecided", "read_committed")) {
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(7)), reader.groupMetadata());
            Checks.fails(TimeoutException.class, () -> reader.committed(Set.of(partition), Duration.ofSeconds(2)));
            producer.commitTransaction();
            Checks.equal(7L, reader.committed(Set.of(partition), Duration.ofSeconds(10)).get(partition).offset(), "the offset after the commit");
        }
    }

    private static void describe() throws Exception {
        make("described");
        try (var producer = producer("described")) {
            producer.beginTransaction();
            send(producer, "described", 1, "x");
            TransactionDescription description = Checks.get(admin.describeTransactions(List.of("described")).description("described"));
            Checks.equal(TransactionState.ONGOING, description.state(), "state");
            Checks.equal(Set.of(new TopicPartition("described", 1)), description.topicPartitions(), "partitions");
            Checks.equal(60000L, description.transactionTimeoutMs(), "timeout");
            Checks.require(description.transactionStartTimeMs().isPresent(), "no start");
            Collection<TransactionListing> ongoing = Checks.get(admin.listTransactions(new ListTransactionsOptions()
                .filterStates(List.of(TransactionState.ONGOING))).all());
            Checks.equal(List.of("described"), ongoing.stream().map(TransactionListing::transactionalId).toList(), "ongoing transactions");
            Checks.equal(1, Checks.get(admin.listTransactions(new ListTransactionsOptions().filterProducerIds(List.of(description.producerId())))
                .all()).size(), "by producer id");
            Checks.equal(0, Checks.get(admin.listTransactions(new ListTransactionsOptions().filterOnDuration(3600000)).all()).size(), "by duration");
            Checks.equal(List.of("described"), Checks.get(admin.listTransactions(new ListTransactionsOptions()
                .filterOnTransactionalIdPattern("descr.*")).all()).stream().map(TransactionListing::transactionalId).toList(), "by pattern");
            Checks.equal(0, Checks.get(admin.listTransactions(new ListTransactionsOptions().filterOnTransactionalIdPattern("escr")).all()).size(),
                "by a part of a name");
            Checks.get(admin.fenceProducers(List.of("described")).all());
            fenced(producer::commitTransaction);
        }
        Checks.fails(TransactionalIdNotFoundException.class, () -> Checks.get(admin.describeTransactions(List.of("never")).description("never")));
    }

    private static void abort() throws Exception {
        make("hanging");
        var partition = new TopicPartition("hanging", 0);
        try (var producer = producer("hanging")) {
            producer.beginTransaction();
            send(producer, "hanging", 0, "x");
            ProducerState state = Checks.get(admin.describeProducers(List.of(partition)).partitionResult(partition)).activeProducers().get(0);
            Checks.equal(0L, state.currentTransactionStartOffset().orElse(-1L), "start of the transaction");
            Checks.equal(0, state.producerEpoch(), "epoch");
            Checks.equal(0, state.lastSequence(), "last sequence");
            Checks.get(admin.abortTransaction(new AbortTransactionSpec(partition, state.producerId(), (short) state.producerEpoch(),
                state.coordinatorEpoch().orElse(0))).all());
            state = Checks.get(admin.describeProducers(List.of(partition)).partitionResult(partition)).activeProducers().get(0);
            Checks.require(state.currentTransactionStartOffset().isEmpty(), "the transaction is open still");
            Checks.equal(List.of(), read("hanging", "read_committed"), "read_committed");
        }
    }

    private static void vanishing() throws Exception {
        make("vanishing", "staying");
        try (var producer = producer("vanishing")) {
            producer.beginTransaction();
            send(producer, "vanishing", 0, "x");
            send(producer, "staying", 0, "y");
            Checks.get(admin.deleteTopics(List.of("vanishing")).all());
            producer.commitTransaction();
            producer.beginTransaction();
            send(producer, "staying", 0, "z");
            producer.commitTransaction();
        }
        Checks.equal(List.of("y", "z"), read("staying", "read_committed"), "read_committed");
    }

    private static void idempotent() throws Exception {
        make("idempotent");
        try (var plain = new KafkaProducer<>(Map.<String, Object>of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < 100; i++) {
                plain.send(new ProducerRecord<>("idempotent", 0, null, "" + i));
            }
        }
        Checks.equal(100, read("idempotent", "read_committed").size(), "read_committed");
    }
}
