// kafkajs as an adapter: the verbs are described in ../python/adapter.py.
'use strict'
const fs = require('fs')
const lz4 = require('lz4-napi')
const zstd = require('@mongodb-js/zstd')
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs')
const Snappy = require('kafkajs-snappy')

CompressionCodecs[CompressionTypes.Snappy] = Snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: (encoder) => lz4.compressFrame(encoder.buffer),
  decompress: (buffer) => lz4.decompressFrame(buffer),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: (encoder) => zstd.compress(encoder.buffer, 3),
  decompress: (buffer) => zstd.decompress(buffer),
})
const CODECS = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 }

const [bootstrap, verb, ...rest] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'kafkajs', brokers: [bootstrap], logLevel: logLevel.ERROR, requestTimeout: 30000 })
const text = (data) => (data === null || data === undefined ? null : data.toString())

async function withAdmin(act) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await act(admin)
  } finally {
    await admin.disconnect()
  }
}

async function create(topic, partitions, ...configs) {
  const configEntries = configs.map((each) => {
    const at = each.indexOf('=')
    return { name: each.slice(0, at), value: each.slice(at + 1) }
  })
  await withAdmin(async (admin) => {
    const created = await admin.createTopics({
      waitForLeaders: true,
      topics: [{ topic, numPartitions: Number(partitions), replicationFactor: 1, configEntries }],
    })
    if (!created) throw new Error(`${topic} was there already`)
  })
}

async function produce(topic, codec, path) {
  const rows = fs.readFileSync(path, 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line))
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  for (let at = 0; at < rows.length; at += 50) {
    const messages = rows.slice(at, at + 50).map((row) => {
      const headers = {}
      // a repeated header is an array in kafkajs
      for (const [name, value] of row.headers) headers[name] = name in headers ? [].concat(headers[name], value) : value
      return { partition: row.partition, key: row.key, value: row.value, timestamp: String(row.timestamp), headers }
    })
    await producer.send({ topic, acks: -1, compression: CODECS[codec], messages })
  }
  await producer.disconnect()
}

async function consume(topic, group, path, count, fetchBytes, partitionBytes) {
  const sizes = Number(fetchBytes) ? { maxBytes: Number(fetchBytes), maxBytesPerPartition: Number(partitionBytes) } : {}
  // the default wait of 5 s would only delay the end
  const consumer = kafka.consumer({ groupId: group, maxWaitTimeInMs: 500, ...sizes })
  const rows = []
  const next = new Map()
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await new Promise((resolve, reject) => {
    let timer
    const alive = () => {
      clearTimeout(timer)
      timer = setTimeout(() => reject(new Error(`nothing more after ${rows.length} of ${count} records`)), 30000)
    }
    alive()
    consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error))
    consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      eachBatch: async ({ batch, resolveOffset, heartbeat }) => {
        for (const message of batch.messages) {
          if (rows.length === Number(count)) break
          const headers = Object.entries(message.headers || {}).flatMap(([name, value]) => [].concat(value).map((each) => [name, text(each)]))
          rows.push({
            partition: batch.partition, offset: Number(message.offset), timestamp: Number(message.timestamp),
            key: text(message.key), value: text(message.value), headers,
          })
          next.set(batch.partition, String(Number(message.offset) + 1))
          resolveOffset(message.offset)
        }
        alive()
        await heartbeat()
        if (rows.length === Number(count)) {
          clearTimeout(timer)
          resolve()
        }
      },
    }).catch(reject)
  })
  await consumer.commitOffsets([...next].map(([partition, offset]) => ({ topic, partition, offset })))
  await consumer.disconnect()
  fs.writeFileSync(path, rows.map((row) => JSON.stringify(row) + '\n').join(''))
}

async function offsets(topic, partition, ...timestamps) {
  await withAdmin(async (admin) => {
    const mine = (found) => found.find((each) => each.partition === Number(partition))
    const ends = mine(await admin.fetchTopicOffsets(topic))
    const found = []
    for (const each of timestamps) {
      if (each === '-1') found.push(Number(ends.high))
      else if (each === '-2') found.push(Number(ends.low))
      else {
        const offset = Number(mine(await admin.fetchTopicOffsetsByTimestamp(topic, Number(each))).offset)
        // kafkajs answers with the end when there is none
        found.push(offset === Number(ends.high) || offset < 0 ? null : offset)
      }
    }
    console.log(JSON.stringify(found))
  })
}

// copies records in transactions that carry the group's offsets; every third is aborted
async function move(from, to, group, count) {
  const producer = kafka.producer({ transactionalId: `kafkajs-${group}`, idempotent: true, maxInFlightRequests: 1 })
  const consumer = kafka.consumer({ groupId: group, maxWaitTimeInMs: 500, maxBytesPerPartition: 1000, readUncommitted: false })
  await producer.connect()
  await consumer.connect()
  await consumer.subscribe({ topic: from, fromBeginning: true })
  let moved = 0
  let attempt = 0
  await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${moved} of ${count} records after 60 s`)), 60000)
    consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error))
    consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      eachBatch: async ({ batch, resolveOffset }) => {
        const messages = batch.messages.slice(0, 20)
        const last = messages[messages.length - 1].offset
        const transaction = await producer.transaction()
        await transaction.send({ topic: to, messages: messages.map(({ value }) => ({ value, partition: batch.partition })) })
        const offsets = [{ partition: batch.partition, offset: String(Number(last) + 1) }]
        await transaction.sendOffsets({ consumerGroupId: group, topics: [{ topic: from, partitions: offsets }] })
        if (attempt++ % 3 === 2) {
          await transaction.abort()
          consumer.seek({ topic: from, partition: batch.partition, offset: messages[0].offset })
          return
        }
        await transaction.commit()
        resolveOffset(last)
        moved += messages.length
        if (moved === Number(count)) {
          clearTimeout(timer)
          resolve()
        } else {
          consumer.seek({ topic: from, partition: batch.partition, offset: String(Number(last) + 1) })
        }
      },
    }).catch(reject)
  })
  await consumer.disconnect()
  await producer.disconnect()
}

const verbs = { create, produce, consume, offsets, move }
verbs[verb](...rest).then(
  () => process.exit(0),
  (error) => {
    console.error(error)
    process.exit(1)
  },
)
