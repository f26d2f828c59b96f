/* A librdkafka client as the load programs want it. */
#ifndef STRANDLINE_BENCH_CLIENT_H
#define STRANDLINE_BENCH_CLIENT_H

#include <librdkafka/rdkafka.h>

void client_set(rd_kafka_conf_t *conf, const char *name, const char *value);
/* Configuration with the addresses of `--brokers` and, last, each `--property`. */
rd_kafka_t *client_new(rd_kafka_type_t type, rd_kafka_conf_t *conf);

/* The two roles; each prints one line of JSON. */
void produce(void);
void consume(void);

#endif
