import { describe, expect, it } from 'vitest'
import { openLeaseManager, runFleet, type LeaseManager } from '../../src/fleet.ts'
import { newInstanceId, parseInstanceId } from '../../src/fleet/fleet-options.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { freshRedis } from '../servers/shared-servers.ts'

const UUID = '3f2504e0-4f89-41d3-9a0c-0305e82c3301'
const UNREACHABLE = 'redis://127.0.0.1:1'

async function reasonOf(work: () => unknown): Promise<string> {
  try {
    await work()
  } catch (error) {
    const { code, message } = error as { readonly code: string; readonly message: string }
    expect(message).not.toContain('\n')
    return `${code}: ${message}`
  }
  throw new Error('nothing was thrown')
}

describe('options', () => {
  it.each([
    [{ leaseTtlMs: 20_000 }, 'leaseTtlMs must be more than twice refreshMs (20000), got 20000'],
    [{ leaseTtlMs: 0 }, 'leaseTtlMs must be an integer 10..86400000, got 0'],
    [{ leaseTtlMs: Number.NaN }, 'leaseTtlMs must be an integer 10..86400000, got NaN'],
    [
      { heartbeatTtlMs: 19_999 },
      'heartbeatTtlMs must be more than twice refreshMs (20000), got 19999',
    ],
    [{ discoverMs: 30_000 }, 'heartbeatTtlMs must be more than discoverMs (30000), got 30000'],
    [
      { callMs: 20_000 },
      'leaseTtlMs must be more than refreshMs and callMs together (30000), got 30000',
    ],
    [{ weight: 0 }, 'weight must be a number 0.01..100, got 0'],
    [{ weight: Number.NaN }, 'weight must be a number 0.01..100, got NaN'],
    [{ name: '' }, 'name must be 1..64 bytes, got ""'],
    [{ instanceId: '' }, 'instanceId must be 1..128 bytes, got ""'],
    [
      { instanceId: 'api' },
      'instanceId must be {hostname}-{bootTimestamp in ns}-{8 hex digits}, got "api"',
    ],
    [{ ready: 'yes' as unknown as boolean }, 'ready must be true or false, got "yes"'],
    [{ prefix: 'a{b' }, 'prefix must be without *?[]\\{}, got "a{b"'],
    [{ layout: 'other' as 'poll' }, 'layout must be poll or lease, got "other"'],
    [
      { ttl: 3 } as object,
      'options must be among leaseTtlMs, heartbeatTtlMs, refreshMs, discoverMs, callMs, weight, name, instanceId, ready, layout, prefix, namespace, token, got "ttl"',
    ],
    [null as unknown as object, 'options must be an object, got null'],
  ])('%j are refused: %s', async (options, message) => {
    expect(await reasonOf(async () => openLeaseManager(UNREACHABLE, options))).toContain(
      `INVALID_INPUT: ${message}`,
    )
  })

  it('fit the layout and the store', async () => {
    const poll = { layout: 'poll' } as const
    expect(await reasonOf(async () => openLeaseManager('memory:', poll))).toContain(
      'layout must be lease on this store, got "poll"',
    )
    expect(await reasonOf(async () => openLeaseManager('memory:', { prefix: 'a' }))).toContain(
      'prefix must not be given with lease',
    )
    expect(await reasonOf(async () => openLeaseManager(UNREACHABLE, { namespace: 'a' }))).toContain(
      'namespace must not be given with poll',
    )
    const named = `${UNREACHABLE}?namespace=a`
    expect(await reasonOf(async () => openLeaseManager(named))).toContain(
      'namespace must not be given with poll',
    )
    expect(await reasonOf(async () => openLeaseManager('nowhere:'))).toContain('INVALID_INPUT')
  })
})

describe('an instance id', () => {
  it('is host, start in nanoseconds and eight digits, whatever the host is called', () => {
    const runtime = new FakeRuntime()
    const birth = { host: 'api-7fd8c9', startedAtMs: 1_736_598_400_000 }
    const id = newInstanceId(runtime, birth)
    expect(id).toMatch(/^api-7fd8c9-1736598400000000000-[0-9a-f]{8}$/)
    expect(newInstanceId(runtime, birth)).not.toBe(id)
    for (const host of ['', 'ä*?[x]{}:', 'a'.repeat(300)]) {
      expect(parseInstanceId(newInstanceId(runtime, { ...birth, host }))).toBeTruthy()
    }
  })
})

describe('a manager', () => {
  it('refuses calls out of order', async () => {
    const manager = await openLeaseManager('memory:')
    await manager.stop()
    expect(await reasonOf(() => manager.tryAcquire('a'))).toMatch(/^INVALID_STATE: .* started/)
    await manager.start()
    expect(await reasonOf(() => manager.start())).toMatch(
      /^INVALID_STATE: start must be called once/,
    )
    await manager.stop()
    const uses: readonly ((used: LeaseManager) => unknown)[] = [
      (used) => used.start(),
      (used) => used.tryAcquire('a'),
      (used) => used.release('a'),
      (used) => used.getLiveNodes(),
      (used) => used.preferredOwner('a'),
      (used) => used.handOver('a', 'b'),
    ]
    for (const use of uses) {
      expect(await reasonOf(() => use(manager))).toBe('CLOSED: the manager was stopped')
    }
  })

  it('takes UUIDs on Redis, and any name elsewhere', async () => {
    await using place = await freshRedis()
    const redis = await openLeaseManager(place.url)
    await redis.start()
    expect(await reasonOf(() => redis.tryAcquire('session-1'))).toBe(
      'INVALID_INPUT: sessionId must be a UUID, got "session-1"',
    )
    expect(await redis.tryAcquire(UUID)).toBe(true)
    await redis.stop()
    const memory = await openLeaseManager('memory:')
    await memory.start()
    expect(await memory.tryAcquire('any name: {a} *')).toBe(true)
    const refused: readonly (readonly [unknown, string])[] = [
      ['', 'sessionId must be 1..1024 bytes, got ""'],
      ['a'.repeat(1_025), 'sessionId must be 1..1024 bytes, got "1025 bytes"'],
      ['a\nb', 'sessionId must not contain control characters, got "a\\nb"'],
      [5, 'sessionId must be text, got 5'],
    ]
    for (const [id, reason] of refused) {
      expect(await reasonOf(() => memory.tryAcquire(id as string))).toBe(`INVALID_INPUT: ${reason}`)
    }
    await memory.stop()
  })

  it('refuses events that it does not have, and listeners that are none', async () => {
    const manager = await openLeaseManager('memory:')
    const nobody = (): void => undefined
    expect(await reasonOf(() => manager.on('aquired' as 'acquired', nobody))).toMatch(
      /^INVALID_INPUT: event must be one of acquired, renewed, .*, got "aquired"/,
    )
    expect(await reasonOf(() => manager.on('lost', 5 as never))).toBe(
      'INVALID_INPUT: listener must be a function, got 5',
    )
    const fleet = await runFleet(manager, [], { poll: nobody })
    expect(await reasonOf(() => fleet.on('fail' as 'failed', nobody))).toBe(
      'INVALID_INPUT: event must be one of poll_failed, failed, got "fail"',
    )
    expect(await reasonOf(() => manager.setReady('yes' as never))).toBe(
      'INVALID_INPUT: isReady must be true or false, got "yes"',
    )
    await fleet.stop()
  })

  it('has no preferred owner where there is no ready node', async () => {
    const manager = await openLeaseManager('memory:', { ready: false })
    await manager.start()
    expect(await reasonOf(() => manager.preferredOwner('a'))).toBe(
      'INVALID_STATE: ready nodes must be at least 1, got 0',
    )
    await manager.stop()
  })

  it('hands over only to another instance that is ready', async () => {
    const manager = await openLeaseManager('memory:')
    await manager.start()
    for (const to of [manager.instanceId, 'nobody-1-00000000']) {
      expect(await reasonOf(() => manager.handOver('a', to))).toBe(
        `INVALID_INPUT: instanceId must be another instance that is ready, got "${to}"`,
      )
    }
    await manager.stop()
  })

  it('says when Redis is not there, without its password, and can be started later', async () => {
    const manager = await openLeaseManager('redis://user:secret@127.0.0.1:1')
    const reason = await reasonOf(() => manager.start())
    expect(reason).toMatch(/^STORE_UNAVAILABLE: redis:\/\/127\.0\.0\.1:1 cannot be reached/)
    expect(reason).not.toContain('secret')
    expect(await reasonOf(() => manager.start())).toMatch(/^STORE_UNAVAILABLE/)
  })
})

describe('opening', () => {
  it('connects to nothing: only a start does, as often as it is tried', async () => {
    const { port } = new URL(UNREACHABLE)
    for (const url of [`postgres://127.0.0.1:${port}/none`, UNREACHABLE]) {
      const manager = await openLeaseManager(url, { layout: 'lease' })
      expect(await reasonOf(() => manager.start())).toMatch(/^STORE_UNAVAILABLE/)
      expect(await reasonOf(() => manager.start())).toMatch(/^STORE_UNAVAILABLE/)
      await manager[Symbol.asyncDispose]()
    }
    const refused = openLeaseManager('sqlite:', {})
    expect(await reasonOf(() => refused)).toMatch(/^INVALID_INPUT: store must be/)
  })
})

describe('runFleet', () => {
  it('refuses what it cannot run', async () => {
    const manager = await openLeaseManager('memory:')
    const poll = (): void => undefined
    const cases: readonly (readonly [() => unknown, string])[] = [
      [() => runFleet({} as LeaseManager, [], { poll }), 'manager must come from openLeaseManager'],
      [() => runFleet(manager, 'a' as never, { poll }), 'sessions must be an array or an async'],
      [() => runFleet(manager, [''], { poll }), 'sessionId must be'],
      [() => runFleet(manager, [], {} as never), 'poll must be a function, got undefined'],
      [() => runFleet(manager, [], { poll, intervalMs: 0 }), 'intervalMs must be an integer'],
      [() => runFleet(manager, [], { poll, every: 1 } as never), 'options must be among'],
    ]
    for (const [work, message] of cases) expect(await reasonOf(work)).toContain(message)
  })
})
