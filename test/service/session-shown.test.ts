/** A session proves what is its own, so nothing that others are told has it: they see a digest. */
import { expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { sessionDigest } from '../../src/service/session-digest.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { ManualTicks } from '../../src/testing/fake-runtime.ts'

it('answers, blockers, events and cycles show a digest of a session, not the session', async () => {
  const api = new LeaseService({
    store: new MemoryStore({ ticks: new ManualTicks() }),
    runtime: systemRuntime,
  })
  const secrets = ['secret-of-ann', 'secret-of-bob']
  const ask = (holder: string, resource: string, under: readonly string[] = []) =>
    api.acquire({
      ...{ id: crypto.randomUUID(), resource: parseResource(resource), holder, under },
      ...{ session: `secret-of-${holder}`, ttlMs: 60_000, waitMs: 60_000 },
    })
  const held = await Promise.all([ask('ann', 'work:a'), ask('bob', 'work:b')])
  const [a = '', b = ''] = held.map((one) => (one.kind === 'granted' ? one.lease.id : ''))
  const queued = await ask('ann', 'work:b', [a])
  const closing = await ask('bob', 'work:a', [b])
  const cycleIn = async (): Promise<unknown> => {
    const events = await api.history({ types: ['lease.failed'] })
    return events.find(({ event }) => event.type === 'lease.failed' && event.cycle !== null)?.event
  }
  await expect.poll(cycleIn).toBeDefined()
  const told = {
    held,
    queued,
    closing,
    cycle: await cycleIn(),
    inspected: await api.inspect({ resource: parseResource('work:b') }),
    got: await api.get({ id: a }),
    listed: await api.list({}),
    history: await api.history({}),
  }
  await api.close()
  for (const [what, answer] of Object.entries(told)) {
    const text = JSON.stringify(answer)
    for (const secret of secrets) expect(text, what).not.toContain(secret)
    expect(text, what).toMatch(/"session":"[\w-]{22}"/)
    const digests = secrets.map((secret) => text.includes(sessionDigest(secret)))
    expect(digests, what).toContain(true)
  }
})
