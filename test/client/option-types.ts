/**
 * Wrong options do not compile. Nothing here runs: the type check fails when a line marked as an error is none, and
 * when one that is not marked is.
 */
import { openTenure, type Lease, type Tenure } from '../../src/index.ts'

export async function wrongOptions(tenure: Tenure, lease: Lease): Promise<void> {
  await tenure.acquire('work:W-1', { ttlMs: 5_000, waitMs: 0, autoRenew: false })
  // @ts-expect-error -- misspelt: ttlMs
  await tenure.acquire('work:W-1', { ttl: 5_000 })
  // @ts-expect-error -- a span is a number
  await tenure.acquire('work:W-1', { ttlMs: '30s' })
  // @ts-expect-error -- an absent option and an undefined one are different things
  await tenure.acquire('work:W-1', { ttlMs: undefined })
  // @ts-expect-error -- it never waits
  await tenure.tryAcquire('work:W-1', { waitMs: 5_000 })
  // @ts-expect-error -- nothing to cancel either
  await tenure.tryAcquire('work:W-1', { signal: AbortSignal.abort() })
  await tenure.withLease('work:W-1', async ({ fence }) => fence satisfies number)
  await tenure.withLease(['work:W-1'], async ({ leases }) => leases[0]?.fence)
  // @ts-expect-error -- options come before the work
  await tenure.withLease('work:W-1', async () => undefined, { ttlMs: 5_000 })
  // @ts-expect-error -- not a release reason
  await lease.release({ reason: 'bored' })
  // @ts-expect-error -- a holder does not choose its fence
  lease.fence = 1
  // @ts-expect-error -- no such event
  lease.on('expired', () => undefined)
  lease.on('lost', ({ error }) => error.code satisfies string)
  // @ts-expect-error -- not a state
  await tenure.list({ state: 'open' })
  // @ts-expect-error -- not an event type
  await tenure.history({ types: ['lease.born'] })
  // @ts-expect-error -- not a key
  await tenure.config.get('ttl')
}

export async function wrongSharing(tenure: Tenure, lease: Lease): Promise<void> {
  await tenure.acquire('file:/src', { mode: 'shared', extent: 'subtree', priority: 5 })
  // @ts-expect-error -- shared or exclusive
  await tenure.acquire('work:W-1', { mode: 'read' })
  // @ts-expect-error -- exact or subtree
  await tenure.acquire('file:/src', { extent: 'recursive' })
  // @ts-expect-error -- a flag
  await tenure.acquire('work:W-1', { breakable: 'yes' })
  // @ts-expect-error -- who does not wait asks nobody to finish
  await tenure.tryAcquire('work:W-1', { breakGraceMs: 5_000 })
  // @ts-expect-error -- each resource has a mode of its own
  await tenure.acquireAll(['work:W-1'], { mode: 'shared' })
  // @ts-expect-error -- a list
  await tenure.acquireAll('work:W-1')
  // @ts-expect-error -- misspelt: graceMs
  await tenure.revoke(lease.id, { grace: 5_000 })
  // @ts-expect-error -- to whom?
  await lease.transfer()
  // @ts-expect-error -- by name, or 'next'
  await lease.transfer({ next: true })
  // @ts-expect-error -- a mode is changed by upgrade and downgrade
  lease.mode = 'shared'
  lease.on('revoking', ({ by, remainingMs }) => [by satisfies string, remainingMs satisfies number])
}

export async function wrongOpening(): Promise<void> {
  await openTenure('memory:', { holder: 'agent-7' })
  // @ts-expect-error -- somebody must be the holder
  await openTenure('memory:')
  // @ts-expect-error -- nobody is the holder
  await openTenure('memory:', {})
  // @ts-expect-error -- full or normal
  await openTenure('sqlite:leases.db', { holder: 'agent-7', synchronous: 'off' })
  // @ts-expect-error -- unknown
  await openTenure('memory:', { holder: 'agent-7', ttlMs: 5 })
}

export async function attemptsAreTold(tenure: Tenure): Promise<number> {
  const attempt = await tenure.tryAcquire('work:W-1')
  // @ts-expect-error -- not known to be granted yet
  void attempt.lease
  return attempt.kind === 'granted' ? attempt.lease.fence : attempt.retryAfterMs
}
