/** The table of refusals, part of it in each bucket. core/refusal.ts says what it is for. */
import { REFUSALS_MAX } from '../../core/limits.ts'
import type { RecordBody } from '../../core/record.ts'
import { compareRefusals, refusalOf, refusalRow, type CountedRefusal } from '../../core/refusal.ts'
import type { Resource } from '../../core/resource.ts'
import type { RefusalQuery } from '../../store-port/store.ts'
import { matchesEvent, refusalsFor } from '../query-matching.ts'
import type { RedisNamespace } from './redis-namespace.ts'
import { COUNT_REFUSALS_SCRIPT, REFUSALS_SCRIPT } from './redis-scripts.ts'

const PAGE = 1_000

export async function countRefusals(
  namespace: RedisNamespace,
  refusals: readonly CountedRefusal[],
): Promise<void> {
  const { buckets } = namespace
  const most = String(Math.ceil(REFUSALS_MAX / buckets.length))
  const countIn = async (bucket: number): Promise<void> => {
    const some = refusals.filter(({ event }) => namespace.bucketOf(event.resource) === bucket)
    if (some.length === 0) return
    const args = [most, ...some.flatMap(wordsOf)]
    await namespace.run(COUNT_REFUSALS_SCRIPT, args, { bucket, effect: 'writes' })
  }
  await Promise.all(buckets.map(countIn))
}

export async function findRefusals(
  namespace: RedisNamespace,
  query: RefusalQuery,
): Promise<readonly CountedRefusal[]> {
  const buckets = namespace.bucketsFor(query)
  const parts = await Promise.all(buckets.map((bucket) => findIn(namespace, bucket, query)))
  return refusalsFor(parts.flat().toSorted(compareRefusals), query)
}

/** As many as are asked for, and all of the millisecond of the last: the server has them in another order. */
async function findIn(
  namespace: RedisNamespace,
  bucket: number,
  query: RefusalQuery,
): Promise<readonly CountedRefusal[]> {
  const { fromMs = '-inf', toMs = '+inf', newestFirst, limit } = query
  const range =
    newestFirst === true ? ['ZREVRANGEBYSCORE', toMs, fromMs] : ['ZRANGEBYSCORE', fromMs, toMs]
  const found: CountedRefusal[] = []
  for (let passed = 0; ; passed += PAGE) {
    const args = [...range, passed, PAGE].map(String)
    const words = await namespace.run(REFUSALS_SCRIPT, args, { bucket, effect: 'reads' })
    const page = refusalsOf(words as readonly string[])
    found.push(...page.filter(({ event }) => matchesEvent(event, query)))
    const last = found[limit - 1]
    const isWhole = last !== undefined && last.event.atMs !== page.at(-1)?.event.atMs
    if (isWhole || page.length < PAGE) return found
  }
}

function wordsOf(counted: CountedRefusal): readonly string[] {
  const { resource, holder, reason, count, lastAtMs, leaseId, detail } = refusalRow(counted)
  const key = JSON.stringify([resource, holder, reason])
  return [key, String(count), [lastAtMs, leaseId, JSON.stringify(detail)].join(' ')]
}

function refusalsOf(words: readonly string[]): readonly CountedRefusal[] {
  const refusals: CountedRefusal[] = []
  for (let at = 0; at < words.length; at += 2) refusals.push(refusalIn(words[at], words[at + 1]))
  return refusals
}

function refusalIn(key = '', row = ''): CountedRefusal {
  const [resource, holder, reason] = JSON.parse(key) as [Resource, string, string]
  const [count, lastAtMs, leaseId = '', ...rest] = row.split(' ')
  const detail = JSON.parse(rest.join(' ')) as RecordBody
  const last = { lastAtMs: Number(lastAtMs), leaseId, detail }
  return refusalOf({ resource, holder, reason, count: Number(count), ...last })
}
