/**
 * A process that does what its parent says, a line of JSON at a time, and answers each line with one. Leases are named
 * by their resource. Times are microseconds of the host's monotonic clock.
 */
import { createInterface } from 'node:readline'
import { openTenure, type Lease } from '../../src/index.ts'
import { nowUs } from './chaos-log.ts'

export interface Order {
  readonly number: number
  readonly verb: 'acquire' | 'release' | 'transfer' | 'adopt' | 'upgrade'
  readonly resource: string
  readonly options?: Readonly<Record<string, unknown>>
  readonly to?: string
  readonly leaseId?: string
}

const [store = '', holder = ''] = process.argv.slice(2)
const tenure = await openTenure(store, { holder })
const leases = new Map<string, Lease>()

/** It does one thing after another: what it holds it keeps until what it asks for has come. */
function heldNow(): readonly Lease[] {
  return [...leases.values()].filter(({ state }) => state === 'held' || state === 'uncertain')
}

async function obey(order: Order): Promise<unknown> {
  const { verb, resource, options, to = '', leaseId = '' } = order
  const lease = leases.get(resource)
  if (verb === 'acquire' || verb === 'adopt') {
    const got =
      verb === 'acquire'
        ? await tenure.acquire(resource, { ...options, under: heldNow() })
        : await tenure.adopt(leaseId, options)
    leases.set(resource, got)
    return { id: got.id, fence: got.fence }
  }
  if (lease === undefined) throw new Error(`${holder} has no lease of ${resource}`)
  if (verb === 'release') return lease.release()
  return verb === 'transfer' ? { id: await lease.transfer(to) } : lease.upgrade(options)
}

function say(line: object): void {
  process.stdout.write(`${JSON.stringify({ holder, ...line })}\n`)
}

say({ number: 0 })
for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line) as Order
  const sentUs = nowUs()
  void obey(order).then(
    (value) => say({ number: order.number, value, sentUs, atUs: nowUs() }),
    (error: unknown) => {
      const { code = 'foreign', message, details = {} } = error as Error & Record<string, unknown>
      say({ number: order.number, error: { code, message, details }, sentUs, atUs: nowUs() })
    },
  )
}
await tenure.close()
