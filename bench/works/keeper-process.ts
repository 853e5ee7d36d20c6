/**
 * A process that does nothing but keep leases alive, so that what it costs is that and nothing else. It acquires, says
 * that it is ready, and on a word from its parent measures itself for a while.
 */
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Lease } from '../../src/client/contract.ts'
import { openTenure } from '../../src/open.ts'
import { messageOf } from '../result.ts'

export interface KeeperOptions {
  readonly url: string
  readonly leases: number
  readonly ttlMs: number
  readonly lastsMs: number
}

export interface Kept {
  readonly lastedMs: number
  /** Of one core. */
  readonly cpuPart: number
  readonly renewals: number
  /** The least that was left of any lease at any look, as part of the TTL. */
  readonly worstPart: number
  readonly lost: number
}

/** What it says to its parent, one after the other. */
export type Said =
  | { readonly kind: 'ready' }
  | { readonly kind: 'kept'; readonly kept: Kept }
  | { readonly kind: 'failed'; readonly error: string }

const LOOK_EVERY_MS = 250
const TOGETHER = 100
/** By then a client has renewed its first leases. */
const SPREAD_PART = 1 / 3

async function keep({ url, leases, ttlMs, lastsMs }: KeeperOptions): Promise<void> {
  const tenure = await openTenure(url, { holder: 'keeper' })
  const held: Lease[] = []
  // They come over some time, as they do in life: all at once they would be renewed in few, large groups for ever.
  const pauseMs = (ttlMs * SPREAD_PART * TOGETHER) / leases
  for (let done = 0; done < leases; done += TOGETHER) {
    await sleep(pauseMs)
    const some = Array.from({ length: Math.min(TOGETHER, leases - done) }, (_, index) =>
      tenure.acquire(`work:kept-${done + index}`, { ttlMs, waitMs: 0 }),
    )
    held.push(...(await Promise.all(some)))
  }
  const told = once(process, 'message')
  say({ kind: 'ready' })
  await told
  say({ kind: 'kept', kept: await watch(held, { ttlMs, lastsMs }) })
  // The parent reads the store's counts now; closing releases, and would be counted.
  await once(process, 'message')
  await tenure.close()
}

function say(said: Said): void {
  process.send?.(said)
}

async function watch(
  held: readonly Lease[],
  { ttlMs, lastsMs }: { readonly ttlMs: number; readonly lastsMs: number },
): Promise<Kept> {
  const renewalsOf = (): number => held.reduce((sum, lease) => sum + lease.renewals, 0)
  const renewalsBefore = renewalsOf()
  const startMs = performance.now()
  const start = process.cpuUsage()
  let worstMs = Number.POSITIVE_INFINITY
  // Looking is our own work and not the keeping's, so it is taken off.
  let lookingUs = 0
  while (performance.now() - startMs < lastsMs) {
    await sleep(LOOK_EVERY_MS)
    const before = process.cpuUsage()
    for (const lease of held) worstMs = Math.min(worstMs, lease.remainingMs)
    const { user, system } = process.cpuUsage(before)
    lookingUs += user + system
  }
  const { user, system } = process.cpuUsage(start)
  const lastedMs = performance.now() - startMs
  return {
    lastedMs,
    cpuPart: (user + system - lookingUs) / (lastedMs * 1_000),
    renewals: renewalsOf() - renewalsBefore,
    worstPart: worstMs / ttlMs,
    lost: held.filter(({ state }) => state === 'lost').length,
  }
}

process.once('disconnect', () => process.exit(0))
try {
  await keep(JSON.parse(process.argv[2] ?? '') as KeeperOptions)
} catch (error) {
  say({ kind: 'failed', error: messageOf(error) })
}
process.disconnect?.()
