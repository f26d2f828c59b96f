/* load consume: reads a topic without a group, from the beginning to the end that it has now, or `--messages` new records from the end on.
 *   --partitions N --from beginning|end --messages N --consumers N (each its own client, each reads everything) --size BYTES (to check) */
#include "client.h"

#include "common.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run {
  rd_kafka_t *client;
  int32_t partitions;
  int64_t *next;         /* offset expected next, by partition */
  int64_t left, messages, bytes, size;
  double started, first, last;
  pthread_barrier_t *assigned;
};

static void on_message(rd_kafka_message_t *message, void *opaque) {
  struct run *run = opaque;
  if (message->err) die("consume: %s", rd_kafka_message_errstr(message));
  if (message->offset != run->next[message->partition])
    die("consume: partition %d: offset %ld after %ld", message->partition, (long)message->offset, (long)run->next[message->partition] - 1);
  if (run->size && (int64_t)message->len != run->size) die("consume: %zu bytes at offset %ld", message->len, (long)message->offset);
  run->next[message->partition]++;
  run->messages++;
  run->bytes += (int64_t)message->len;
  if (run->first == 0) run->first = now_s();
  if (--run->left == 0) {
    run->last = now_s();
    rd_kafka_yield(run->client);
  }
}

static void connect_consumer(struct run *run) {
  rd_kafka_conf_t *conf = rd_kafka_conf_new();
  client_set(conf, "enable.auto.commit", "false");
  client_set(conf, "fetch.wait.max.ms", option("wait", "100"));
  run->client = client_new(RD_KAFKA_CONSUMER, conf);
}

/* Asks for the bounds of every partition, which says where to begin and how much there is. */
static void plan(struct run *run, const char *topic) {
  int from_end = strcmp(option("from", "beginning"), "end") == 0;
  run->next = calloc((size_t)run->partitions, sizeof *run->next);
  if (!run->next) die("no memory");
  for (int32_t partition = 0; partition < run->partitions; partition++) {
    int64_t low, high;
    rd_kafka_resp_err_t error = rd_kafka_query_watermark_offsets(run->client, topic, partition, &low, &high, 30000);
    if (error) die("offsets of %s-%d: %s", topic, partition, rd_kafka_err2str(error));
    run->next[partition] = from_end ? high : low;
    if (!from_end) run->left += high - low;
  }
  int64_t asked = option_number("messages", 0);
  if (asked && (from_end || asked < run->left)) run->left = asked;
  if (run->left == 0) die("%s: nothing to read", topic);
}

static void *consume_one(void *argument) {
  struct run *run = argument;
  const char *name = option("topic", "bench");
  connect_consumer(run);
  rd_kafka_topic_t *topic = rd_kafka_topic_new(run->client, name, NULL);
  rd_kafka_queue_t *queue = rd_kafka_queue_new(run->client);
  plan(run, name);
  pthread_barrier_wait(run->assigned);
  run->started = now_s();
  for (int32_t partition = 0; partition < run->partitions; partition++)
    if (rd_kafka_consume_start_queue(topic, partition, run->next[partition], queue)) die("start: %s", rd_kafka_err2str(rd_kafka_last_error()));
  while (run->left > 0) rd_kafka_consume_callback_queue(queue, 1000, on_message, run);
  for (int32_t partition = 0; partition < run->partitions; partition++) rd_kafka_consume_stop(topic, partition);
  rd_kafka_queue_destroy(queue);
  rd_kafka_topic_destroy(topic);
  rd_kafka_destroy(run->client);
  return NULL;
}

void consume(void) {
  int64_t consumers = option_number("consumers", 1);
  if (consumers < 1 || consumers > 1024) die("--consumers: 1 to 1024");
  struct run *runs = calloc((size_t)consumers, sizeof *runs);
  pthread_t *threads = calloc((size_t)consumers, sizeof *threads);
  pthread_barrier_t assigned;
  if (!runs || !threads || pthread_barrier_init(&assigned, NULL, (unsigned)consumers + 1)) die("no memory");
  for (int i = 0; i < consumers; i++) {
    runs[i] = (struct run){.partitions = (int32_t)option_number("partitions", 1), .size = option_number("size", 0), .assigned = &assigned};
    if (pthread_create(&threads[i], NULL, consume_one, &runs[i])) die("no thread");
  }
  pthread_barrier_wait(&assigned);
  double cpu = cpu_s();
  /* Whoever starts a producer beside us waits for this line. */
  printf("ready\n");
  fflush(stdout);
  double first = 0, last = 0, started = 0;
  int64_t messages = 0, bytes = 0;
  for (int i = 0; i < consumers; i++) {
    pthread_join(threads[i], NULL);
    if (started == 0 || runs[i].started < started) started = runs[i].started;
    if (first == 0 || runs[i].first < first) first = runs[i].first;
    if (runs[i].last > last) last = runs[i].last;
    messages += runs[i].messages;
    bytes += runs[i].bytes;
    free(runs[i].next);
  }
  printf("{\"messages\":%ld,\"bytes\":%ld,\"seconds\":%.6f,\"first_record_s\":%.6f,\"ended_at\":%.6f,\"client_cpu_s\":%.6f}\n",
         (long)messages, (long)bytes, last - started, first - started, last, cpu_s() - cpu);
}
