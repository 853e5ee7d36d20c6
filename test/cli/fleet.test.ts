import { describe, expect, it, onTestFinished } from 'vitest'
import { openLeaseManager, runFleet } from '../../src/fleet.ts'
import type { Overview } from '../../src/fleet/fleet-overview.ts'
import { overviewOf } from '../../src/fleet/fleet-overview.ts'
import { sessionIds } from '../processes/fleet-stage.ts'
import { freshRedis } from '../servers/shared-servers.ts'
import { tenure, workshop } from './tenure-process.ts'

const SPANS = { leaseTtlMs: 6_000, heartbeatTtlMs: 6_000, refreshMs: 500, callMs: 3_000 }
const SESSIONS = sessionIds(12)

/** Two instances with names, in this process. */
async function twoInstances(url: string): Promise<readonly string[]> {
  const ids: string[] = []
  for (const name of ['blue', 'green']) {
    const manager = await openLeaseManager(url, { ...SPANS, name })
    const fleet = await runFleet(manager, SESSIONS, { poll: () => undefined, intervalMs: 100 })
    onTestFinished(async () => fleet.stop())
    ids.push(manager.instanceId)
  }
  return ids
}

async function json<Answer>(args: readonly string[]): Promise<Answer> {
  const { code, stdout, stderr } = await tenure([...args, '--json'])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return JSON.parse(stdout) as Answer
}

/** What `fleet ls` says when nothing is on its way from one to another, and how long that took it. */
async function whenSettled(
  store: readonly string[],
): Promise<Pick<Overview, 'sessions'> & { readonly tookMs: number }> {
  for (;;) {
    const askedAtMs = Date.now()
    const { sessions } = await json<Pick<Overview, 'sessions'>>(['fleet', 'ls', ...store])
    const owned = sessions.filter(({ state }) => state === 'owned')
    if (owned.length === SESSIONS.length) return { sessions, tookMs: Date.now() - askedAtMs }
  }
}

async function statesOf(store: readonly string[]): Promise<readonly string[]> {
  const { nodes } = await json<Pick<Overview, 'nodes'>>(['fleet', 'nodes', ...store])
  return nodes.map(({ name, state }) => `${name} ${state}`).toSorted()
}

describe('tenure fleet', () => {
  it.each(['redis', 'sqlite'])('shows and drains a fleet on %s', async (kind) => {
    const place = kind === 'redis' ? await freshRedis() : null
    const url = place?.url ?? workshop().storeUrl
    const begunAtMs = Date.now()
    const [blue = '', green = ''] = await twoInstances(url)
    const store = ['--store', url]
    const { sessions, tookMs } = await whenSettled(store)
    expect(sessions.map(({ sessionId }) => sessionId)).toEqual(SESSIONS)
    expect(sessions.every(({ ownerId }) => ownerId === blue || ownerId === green)).toBe(true)
    for (const { lastRenewedAtMs } of sessions) {
      // It is told by what was left of the lease a moment after the command had looked at its clock.
      expect(lastRenewedAtMs).toBeGreaterThanOrEqual(begunAtMs - tookMs)
      expect(lastRenewedAtMs).toBeLessThanOrEqual(Date.now())
    }
    expect(await statesOf(store)).toEqual(['blue ready', 'green ready'])
    const drained = await json(['fleet', 'drain', 'blue', '--wait', '40s', ...store])
    expect(drained).toEqual({ instanceId: blue, draining: true, sessions: 0 })
    // What blue has let go is not at once where it should be, nor is blue's own sign that it is there.
    const owners = async (): Promise<string> => (await tenure(['fleet', 'owners', ...store])).stdout
    await expect.poll(owners).toContain(`${green}  12`)
    await expect.poll(() => statesOf(store)).toEqual(['blue draining', 'green ready'])
    expect(await json(['fleet', 'drain', 'blue', '--undo', ...store])).toMatchObject({
      ...{ instanceId: blue, draining: false },
    })
    expect((await tenure(['fleet', 'ls', ...store])).stdout).toMatch(/^SESSION +OWNER/)
    // Whatever runs the fleet ends before its database is taken away.
    if (place !== null) onTestFinished(async () => place.remove())
  })

  it.each([
    [[], 'ACTION must be given, got nothing (see --help)'],
    [['what'], 'ACTION must be one of ls, nodes, owners, drain, got "what"'],
    [['drain'], 'NODE must be given, got undefined'],
    [['ls', 'node'], 'fleet ls must be followed by nothing, got "node"'],
    [['ls', '--wait', '3s'], 'wait must only be given with drain, got "ls"'],
    [['ls', '--layout', 'x'], 'layout must be poll or lease, got "x"'],
    [['drain', 'nobody'], 'NODE must be one that fleet nodes lists, got "nobody"'],
  ])('%j is refused: %s', async (words, message) => {
    const { code, stderr } = await tenure(['fleet', ...words, '--store', workshop().storeUrl])
    expect({ code, stderr }).toEqual({ code: 2, stderr: `tenure: ${message} (INVALID_INPUT)\n` })
  })

  it('says when nobody is there', async () => {
    const { tenure: run } = workshop()
    expect((await run(['fleet', 'ls'])).stdout).toBe('no sessions\n')
    expect((await run(['fleet', 'nodes'])).stdout).toBe('no instances\n')
  })

  it('waits for an instance to be empty no longer than it was told to', async () => {
    const { storeUrl } = workshop()
    const manager = await openLeaseManager(storeUrl, { ...SPANS, name: 'stubborn' })
    onTestFinished(async () => manager.stop())
    await manager.start()
    await manager.tryAcquire('s')
    const wait = ['fleet', 'drain', 'stubborn', '--wait', '300ms', '--store', storeUrl]
    const { code, stderr } = await tenure(wait)
    expect(code).toBe(11)
    expect(stderr).toContain('still owns 1 session after 300 ms (WAIT_TIMEOUT)')
  })
})

describe('the overview', () => {
  const node = {
    ...{ instanceId: 'a-1-00000000', weight: 1, name: null },
    ...{ isForeign: false, isDraining: false, expiresInMs: 1, leaseTtlMs: null },
  }
  const facts = { nowMs: 100_000, leaseTtlMs: 30_000 }
  const row = (owner: string, remainingMs: number | null) => ({
    ...{ sessionId: 's', owner, remainingMs, ttlMs: null },
  })

  it.each([
    [row('a-1-00000000', 15_000), 'owned', 85_000],
    [row('a-1-00000000', 14_999), 'uncertain', 84_999],
    [row('b-1-00000000', 29_000), 'orphaned', 99_000],
    [row('a-1-00000000', null), 'owned', null],
  ])('of %j is %s', (owned, state, lastRenewedAtMs) => {
    const { sessions } = overviewOf([node], { owned: [owned], draining: [], hidden: [] }, facts)
    expect(sessions).toMatchObject([{ state, lastRenewedAtMs, preferredOwnerId: node.instanceId }])
  })

  it('tells those who are drained from those who are silent', () => {
    const owned = [row('b-1-00000000', 1)]
    const hidden = ['c-1-00000000', 'd-1-00000000'].map((instanceId) => ({ ...node, instanceId }))
    const { nodes } = overviewOf([node], { owned, draining: ['c-1-00000000'], hidden }, facts)
    expect(nodes.map(({ state }) => state)).toEqual(['ready', 'silent', 'draining', 'not_ready'])
  })

  it('counts by the TTL of the owner where the store does not keep it', () => {
    const hidden = { ...node, instanceId: 'b-1-00000000', leaseTtlMs: 4_000 }
    const owned = [row('b-1-00000000', 3_000)]
    const { sessions } = overviewOf([node], { owned, draining: [], hidden: [hidden] }, facts)
    expect(sessions).toMatchObject([{ state: 'owned', lastRenewedAtMs: 99_000 }])
  })
})
