/**
 * A Redis store with a long ledger, of rows that are copies of two pairs that Tenure wrote: one resource is used by every
 * thousandth pair, one was used by the first ten pairs alone and then rests.
 */
import { Redis } from 'ioredis'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { openRedisStore } from '../../src/store/redis/redis-store.ts'

const LEDGER = 'tenure:{default}:ledger'
const KNOWN = 'tenure:{default}:known'
const TOGETHER = 5_000
const US_APART = 10

/** The texts of its two events. */
type Pair = readonly [first: string, end: string]

/** The store has the events of this many pairs; each 16th was revoked. */
export async function makeLongRedisLedger(url: string, pairs: number): Promise<void> {
  const service = new LeaseService({ store: await openRedisStore({ url }), runtime: systemRuntime })
  const wish = { resource: parseResource('work:template'), holder: 'h', session: 's', waitMs: 0 }
  const [released, revoked] = [systemRuntime.uuid(), systemRuntime.uuid()]
  await service.acquire({ ...wish, id: released })
  await service.release({ id: released, holder: 'h', requestId: systemRuntime.uuid() })
  await service.acquire({ ...wish, id: revoked })
  await service.revoke({ id: revoked, by: 'operator' })
  await service.close()
  const client = new Redis(url)
  const rows = await client.xrange(LEDGER, '-', '+')
  const events = rows.flatMap(([, fields]) => fields.filter((_, index) => index % 2 === 1))
  const pairOf = (id: string): Pair => {
    const [first = '', end = ''] = events.filter((event) => event.startsWith(id))
    return [first.replaceAll(id, 'ID'), end.replaceAll(id, 'ID')]
  }
  const [ofReleased, ofRevoked] = [pairOf(released), pairOf(revoked)]
  const lastUs = Number(rows.at(-1)?.[0].split('-')[0])
  for (let first = 1; first <= pairs; first += TOGETHER) {
    const commands = client.pipeline()
    for (let n = first; n < Math.min(first + TOGETHER, pairs + 1); n += 1) {
      const hex = n.toString(16)
      const id = `${hex.padStart(8, '0')}-0000-7000-8000-${hex.padStart(12, '0')}`
      const texts = (n % 16 === 0 ? ofRevoked : ofReleased).map((text) => copyOf(text, id, n))
      const us = lastUs + US_APART * n
      commands.xadd(LEDGER, String(us), ...texts.flatMap((text, at) => [String(at), text]))
      commands.hset(KNOWN, id, `${us} 1`)
    }
    await commands.exec()
  }
  client.disconnect()
}

function copyOf(text: string, id: string, n: number): string {
  const [resource, holder] =
    n <= 10
      ? ['idle', 'idle']
      : n % 1000 === 0
        ? ['busy', 'busy']
        : [String((n * 7919) % 100_003), `holder-${n % 1009}`]
  return text
    .replaceAll('ID', id)
    .replaceAll('"work:template"', JSON.stringify(`work:${resource}`))
    .replaceAll('"h"', JSON.stringify(holder))
}
