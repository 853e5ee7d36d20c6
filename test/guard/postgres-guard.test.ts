import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { isLeaseError } from '../../src/core/errors.ts'
import { guard, type GuardedLease } from '../../src/guard/index.ts'
import { onFault, type Fault } from '../../src/runtime/diagnostics.ts'
import { hearFaults } from '../runtime/hear-faults.ts'
import { freshDatabase, type Place } from '../servers/shared-servers.ts'

let place: Place
let pool: pg.Pool

beforeAll(async () => {
  place = await freshDatabase()
  pool = new pg.Pool({ connectionString: place.url, max: 4 })
  // The database is dropped under connections that are still on their way out.
  pool.on('error', () => undefined)
  await pool.query('CREATE TABLE writes (id serial, value text)')
})

afterAll(async () => {
  await pool.end()
  await place.remove()
})

beforeEach(async () => {
  await guard.postgres(pool).init()
  await pool.query('TRUNCATE writes, tenure_fences')
})

function lease(fence: number, resource = 'work:W'): GuardedLease {
  return { id: randomUUID(), resource, fence }
}

function insert(value: string): (client: pg.PoolClient) => Promise<unknown> {
  return (client) => client.query('INSERT INTO writes (value) VALUES ($1)', [value])
}

async function values(): Promise<readonly string[]> {
  const { rows } = await pool.query<{ value: string }>('SELECT value FROM writes ORDER BY id')
  return rows.map(({ value }) => value)
}

/** One client of one's own, as a program has that needs no pool. */
async function connected(): Promise<AsyncDisposable & { readonly own: pg.Client }> {
  const own = new pg.Client({ connectionString: place.url })
  await own.connect()
  return { own, [Symbol.asyncDispose]: () => own.end() }
}

interface OlderClient {
  query(sql: string, values?: readonly unknown[]): Promise<pg.QueryResult>
}

/** A client that cannot tell whether it is in a transaction; something may happen before each statement. */
function olderDriver(
  own: pg.ClientBase,
  before: (sql: string) => unknown = () => null,
): OlderClient {
  return {
    query: async (sql, values) => {
      await before(sql)
      return own.query(sql, values as unknown[])
    },
  }
}

function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = (): void => undefined
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open }
}

describe('a guarded write in PostgreSQL', () => {
  it('says which table is missing, and how to get it', async () => {
    await pool.query('DROP TABLE tenure_fences')
    const error: unknown = await guard
      .postgres(pool)
      .write(lease(1), insert('a'))
      .catch((reason: unknown) => reason)
    expect(error).toMatchObject({
      code: 'STORE_SCHEMA',
      message: 'the database has no table tenure_fences; create it with "tenure guard init"',
      details: { table: 'tenure_fences' },
      cause: { code: '42P01' },
    })
  })

  it('is undone with its mark when the work throws, and gives its connection back', async () => {
    const guarded = guard.postgres(pool)
    const failing = async (client: pg.PoolClient): Promise<never> => {
      await insert('half')(client)
      throw new Error('no')
    }
    for (let i = 0; i < 6; i += 1) {
      await expect(guarded.write(lease(20), failing)).rejects.toThrow('no')
    }
    expect(await values()).toEqual([])
    await guarded.write(lease(10), insert('a'))
    expect(await values()).toEqual(['a'])
  })

  it('gives back a connection that can be used again, after work that throws as well', async () => {
    const small = new pg.Pool({ connectionString: place.url, max: 1 })
    small.on('error', () => undefined)
    const [faults, guarded, holder] = [hearFaults(), guard.postgres(small), lease(10)]
    const pids = new Set<unknown>()
    for (const fails of [false, true, false]) {
      const writing = guarded.write(holder, async (client) => {
        const { rows } = await client.query('SELECT pg_backend_pid() AS pid')
        pids.add(rows[0]?.pid)
        if (fails) throw new Error('no')
      })
      await (fails ? expect(writing).rejects.toThrow('no') : writing)
    }
    await small.end()
    expect(pids.size).toBe(1)
    expect(faults()).toEqual([])
  })

  it('takes no work that is no function', async () => {
    const writing = guard.postgres(pool).write(lease(1), 'work' as never)
    await expect(writing).rejects.toThrow('work must be a function, got "work"')
  })

  it('leaves no savepoint in the transaction of the client', async () => {
    await using client = await connected()
    const guarded = guard.postgres(client.own)
    await guarded.check('work:W', 20)
    for (const fence of [10, 20]) {
      await client.own.query('BEGIN')
      const checking = guarded.check('work:W', fence)
      await (fence < 20 ? expect(checking).rejects.toThrow('got 10') : checking)
      const releasing = client.own.query('RELEASE SAVEPOINT tenure_guard')
      await expect(releasing).rejects.toMatchObject({ code: '3B001' })
      await client.own.query('ROLLBACK')
    }
  })

  it('takes part in a transaction of the client, and undoes only its own part', async () => {
    const client = await pool.connect()
    const guarded = guard.postgres(client)
    await guarded.write(lease(20), insert('a'))
    await client.query('BEGIN')
    await insert('mine')(client)
    await expect(guarded.write(lease(10), insert('stale'))).rejects.toThrow('got 10')
    await guarded.write(lease(30), insert('b'))
    await client.query('COMMIT')
    expect(await values()).toEqual(['a', 'mine', 'b'])
    await client.query('BEGIN')
    await guarded.write(lease(40), insert('undone'))
    await client.query('ROLLBACK')
    expect(await guarded.check('work:W', 35)).toBe(true)
    client.release()
  })

  it('takes turns on one client: two writes at once do not share a transaction', async () => {
    await using client = await connected()
    const guarded = guard.postgres(client.own)
    const undone = guarded.write(lease(10, 'work:A'), async (own) => {
      await own.query(`INSERT INTO writes (value) VALUES ('a1')`)
      await own.query('SELECT pg_sleep(0.02)')
      await own.query(`INSERT INTO writes (value) VALUES ('a2')`)
      throw new Error('no')
    })
    const kept = guarded.write(lease(10, 'work:B'), async (own) => {
      await own.query(`INSERT INTO writes (value) VALUES ('b')`)
    })
    await expect(undone).rejects.toThrow('no')
    await kept
    expect(await values()).toEqual(['b'])
  })

  it('does not wait for itself: a write within a write, and two of them at once', async () => {
    await using client = await connected()
    const guarded = guard.postgres(client.own)
    await guarded.write(lease(10, 'work:A'), async () => {
      const failing = guarded.write(lease(10, 'work:B'), async (own) => {
        await own.query(`INSERT INTO writes (value) VALUES ('undone')`)
        throw new Error('no')
      })
      const fine = guarded.write(lease(10, 'work:C'), async (own) => {
        await own.query(`INSERT INTO writes (value) VALUES ('kept')`)
      })
      await expect(failing).rejects.toThrow('no')
      await fine
    })
    expect(await values()).toEqual(['kept'])
  })

  it('does not resolve when PostgreSQL has undone it, whatever its work made of the error', async () => {
    const guarded = guard.postgres(pool)
    const swallowing = async (client: pg.PoolClient): Promise<string> => {
      await insert('half')(client)
      await client.query('SELECT 1 / 0').catch(() => undefined)
      return 'done'
    }
    const error: unknown = await guarded.write(lease(20), swallowing).catch((e: unknown) => e)
    expect(error).toMatchObject({
      ...{ code: 'INVALID_INPUT', effect: 'none', details: { field: 'work' } },
    })
    expect((error as Error).message).toMatch(/^work must not go on after a statement that failed/)
    expect(await values()).toEqual([])
    await guarded.write(lease(10), insert('a'))
    expect(await values()).toEqual(['a'])
  })

  it('is undone alone when that happens within a transaction of the client', async () => {
    const client = await pool.connect()
    const guarded = guard.postgres(client)
    await client.query('BEGIN')
    await insert('mine')(client)
    const swallowing = async (own: pg.PoolClient): Promise<void> => {
      await insert('half')(own)
      await own.query('SELECT 1 / 0').catch(() => undefined)
    }
    const error: unknown = await guarded.write(lease(20), swallowing).catch((e: unknown) => e)
    expect(error).toMatchObject({ code: 'INVALID_INPUT', effect: 'none' })
    await guarded.write(lease(10), insert('a'))
    await client.query('COMMIT')
    client.release()
    expect(await values()).toEqual(['mine', 'a'])
  })

  it('does not resolve when its work has ended the transaction itself', async () => {
    const guarded = guard.postgres(pool)
    const ending = (client: pg.PoolClient): Promise<unknown> => client.query('ROLLBACK')
    const error: unknown = await guarded.write(lease(20), ending).catch((e: unknown) => e)
    expect(error).toMatchObject({ code: 'INVALID_INPUT' })
    expect(await guarded.check('work:W', 10)).toBe(true)
  })

  it.each([
    ['begun another', ['ROLLBACK', 'BEGIN']],
    ['rolled back into another', ['ROLLBACK AND CHAIN']],
    ['replaced it in one query', ['SELECT 1; ROLLBACK; BEGIN; SELECT 1']],
    ['committed and begun another', ['COMMIT', 'BEGIN']],
  ])('does not resolve when its work has %s', async (_, statements) => {
    const guarded = guard.postgres(pool)
    const replacing = async (client: pg.PoolClient): Promise<void> => {
      for (const statement of statements) await client.query(statement)
      await insert('unguarded')(client)
    }
    await expect(guarded.write(lease(20), replacing)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(/^work must not end the transaction/),
    })
    expect(await values()).toEqual([])
  })

  it('says so within a transaction of the client as well, and of an older driver', async () => {
    const pooled = await pool.connect()
    onTestFinished(() => pooled.release())
    const older = olderDriver(pooled)
    const refusal = 'work must not end the transaction'
    for (const client of [pooled, older]) {
      for (const statement of ['ROLLBACK', 'ROLLBACK; BEGIN']) {
        await pooled.query('BEGIN')
        const ending = guard.postgres(client).write(lease(20), () => client.query(statement))
        await expect(ending).rejects.toThrow(refusal)
        await pooled.query('ROLLBACK')
      }
      const ending = guard.postgres(client).write(lease(20), () => client.query('ROLLBACK'))
      await expect(ending).rejects.toThrow(refusal)
    }
  })

  it('throws the error that PostgreSQL finds in its work only at the end as it is', async () => {
    await pool.query(`CREATE TABLE parents (id int PRIMARY KEY);
      CREATE TABLE children (parent int REFERENCES parents DEFERRABLE INITIALLY DEFERRED)`)
    const guarded = guard.postgres(pool)
    const orphan = (client: pg.PoolClient): Promise<unknown> => {
      return client.query('INSERT INTO children VALUES (1)')
    }
    const error: unknown = await guarded.write(lease(20), orphan).catch((e: unknown) => e)
    expect(isLeaseError(error)).toBe(false)
    expect(error).toMatchObject({ code: '23503', table: 'children' })
    // Its mark was undone with it.
    expect(await guarded.check('work:W', 10)).toBe(true)
  })

  it.each([
    ['57P01', 'STORE_UNAVAILABLE', 'none'],
    ['08006', 'STORE_UNAVAILABLE', 'none'],
    ['EPIPE', 'STORE_OUTCOME_UNKNOWN', 'unknown'],
    ['ECONNRESET', 'STORE_OUTCOME_UNKNOWN', 'unknown'],
  ])('takes %s at the end for %s', async (sqlState, code, effect) => {
    const client = {
      query: async (sql: string) => {
        if (sql === 'COMMIT') throw Object.assign(new Error('gone'), { code: sqlState })
        return { rows: [] }
      },
      release: () => undefined,
    }
    const stub = { totalCount: 1, query: () => undefined, connect: async () => client }
    const writing = guard.postgres(stub as unknown as pg.Pool).write(lease(10), () => undefined)
    await expect(writing).rejects.toMatchObject({ code, effect })
  })

  it('gives no connection back to the pool that may still be in its transaction', async () => {
    const released: unknown[] = []
    const client = {
      query: async (sql: string) => {
        if (sql === 'ROLLBACK') throw new Error('timeout')
        return { rows: [] }
      },
      release: (broken?: boolean) => void released.push(broken),
    }
    const stub = { totalCount: 1, query: () => undefined, connect: async () => client }
    const faults: Fault[] = []
    onTestFinished(onFault((fault) => void faults.push(fault)))
    const writing = guard.postgres(stub as unknown as pg.Pool).write(lease(10), () => {
      throw new Error('no')
    })
    await expect(writing).rejects.toThrow('no')
    expect(released).toEqual([true])
    expect(faults).toMatchObject([
      { source: 'guard/postgres-rollback', error: { message: 'timeout' } },
    ])
  })

  it('does not join the transaction of a stranger when a timer of it outlives it', async () => {
    await using client = await connected()
    const guarded = guard.postgres(client.own)
    const [fire, entered, finish] = [gate(), gate(), gate()]
    const late = { write: Promise.resolve() as Promise<unknown> }
    await guarded.write(lease(10, 'work:A'), async () => {
      // Goes on after the write has ended, in the same asynchronous context.
      late.write = fire.opened.then(() => {
        return guarded.write(lease(10, 'work:L'), (own) => {
          return own.query(`INSERT INTO writes (value) VALUES ('late')`)
        })
      })
    })
    const stranger = guarded.write(lease(10, 'work:B'), async (own) => {
      await own.query(`INSERT INTO writes (value) VALUES ('stranger')`)
      entered.open()
      await finish.opened
      throw new Error('no')
    })
    await entered.opened
    fire.open()
    await new Promise((resolve) => setImmediate(resolve))
    finish.open()
    await expect(stranger).rejects.toThrow('no')
    await late.write
    expect(await values()).toEqual(['late'])
  })

  it('waits for what was begun within it, which cannot go on without it', async () => {
    await using client = await connected()
    const guarded = guard.postgres(client.own)
    const begun = { write: Promise.resolve() as Promise<unknown> }
    await guarded.write(lease(10, 'work:A'), async () => {
      begun.write = guarded.write(lease(10, 'work:B'), async (own) => {
        await own.query(`INSERT INTO writes (value) VALUES ('b1')`)
        await own.query(`INSERT INTO writes (value) VALUES ('b2')`)
      })
    })
    expect(await values()).toEqual(['b1', 'b2'])
    await begun.write
  })

  it.each([1, 4])('takes along what is written within it on the same pool of %i', async (max) => {
    const small = new pg.Pool({ connectionString: place.url, max })
    small.on('error', () => undefined)
    try {
      const [guarded, holder] = [guard.postgres(small), lease(20)]
      const writing = guarded.write(holder, async (client) => {
        await insert('outer')(client)
        expect(await guarded.check(holder)).toBe(true)
        await guarded.write(holder, insert('inner'))
        await expect(guarded.write(lease(10), insert('stale'))).rejects.toThrow('got 10')
        throw new Error('no')
      })
      await expect(writing).rejects.toThrow('no')
      expect(await values()).toEqual([])
      await guarded.write(lease(10), insert('a'))
      expect(await values()).toEqual(['a'])
    } finally {
      await small.end()
    }
  })

  it('takes along what is written within it on its own client, and nothing on another pool', async () => {
    const other = new pg.Pool({ connectionString: place.url, max: 1 })
    other.on('error', () => undefined)
    const writing = guard.postgres(pool).write(lease(20, 'work:A'), async (client) => {
      await guard.postgres(client).write(lease(20, 'work:B'), insert('inner'))
      await guard.postgres(other).write(lease(20, 'work:C'), insert('other'))
      throw new Error('no')
    })
    await expect(writing).rejects.toThrow('no')
    await other.end()
    expect(await values()).toEqual(['other'])
  })

  it('does not try where the driver knows that it is in no transaction', async () => {
    await using client = await connected()
    const statements: string[] = []
    const getTransactionStatus = (): string | null => client.own.getTransactionStatus()
    const heard = {
      ...olderDriver(client.own, (sql) => statements.push(sql)),
      getTransactionStatus,
    }
    await guard.postgres(heard).check('work:W', 10)
    expect(statements[0]).toMatch(/^BEGIN/)
  })

  it('sends nothing more to an older driver whose transaction has failed', async () => {
    await using client = await connected()
    const statements: string[] = []
    const older = olderDriver(client.own, (sql) => statements.push(sql))
    await client.own.query('BEGIN')
    await expect(client.own.query('SELECT 1 / 0')).rejects.toThrow('division by zero')
    const checking = guard.postgres(older).check('work:W', 10)
    await expect(checking).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE', effect: 'none' })
    expect(statements).toHaveLength(1)
  })

  it('does not resolve when a statement fails that its work has left behind', async () => {
    await using client = await connected()
    const late = olderDriver(client.own, (sql) => {
      return sql === 'COMMIT' && client.own.query('SELECT 1 / 0').catch(() => undefined)
    })
    const writing = guard.postgres(late).write(lease(10), (own) => {
      return own.query(`INSERT INTO writes (value) VALUES ('half')`)
    })
    await expect(writing).rejects.toMatchObject({ code: 'INVALID_INPUT', effect: 'none' })
    expect(await values()).toEqual([])
  })

  it.each(['BEGIN', 'RELEASE'])('says that PostgreSQL is away when it is at the %s', async (at) => {
    await using client = await connected()
    const away = olderDriver(client.own, (sql) => {
      if (sql.startsWith(at)) throw Object.assign(new Error('shutting down'), { code: '57P01' })
    })
    const checking = guard.postgres(away).check('work:W', 10)
    await expect(checking).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE', effect: 'none' })
  })

  it('waits no longer for the marks than its client lets it', async () => {
    await using client = await connected()
    await client.own.query(`SET lock_timeout = '10ms'`)
    const guarded = guard.postgres(pool)
    await guarded.check('work:W', 10)
    await guarded.write(lease(20), async () => {
      const checking = guard.postgres(client.own).check('work:W', 30)
      await expect(checking).rejects.toMatchObject({ code: 'STORE_CONFLICT', effect: 'none' })
    })
  })

  it('finds out by trying whether an older driver is in a transaction', async () => {
    const pooled = await pool.connect()
    const older = olderDriver(pooled)
    const guarded = guard.postgres(older)
    await guarded.write(lease(10), (client) =>
      client.query(`INSERT INTO writes (value) VALUES ('a')`),
    )
    await pooled.query('BEGIN')
    await guarded.write(lease(20), (client) =>
      client.query(`INSERT INTO writes (value) VALUES ('b')`),
    )
    await pooled.query('ROLLBACK')
    pooled.release()
    expect(await values()).toEqual(['a'])
  })

  it('makes a later holder wait until an earlier one that writes is done', async () => {
    const guarded = guard.postgres(pool)
    const [early, later] = [lease(10), lease(20)]
    await guarded.write(early, insert('a'))
    const [entered, finish] = [gate(), gate()]
    const slow = guarded.write(early, async (client) => {
      entered.open()
      await finish.opened
      await insert('b')(client)
    })
    await entered.opened
    const next = guarded.write(later, insert('c'))
    await expect.poll(waiting).toBe(1)
    finish.open()
    await Promise.all([slow, next])
    expect(await values()).toEqual(['a', 'b', 'c'])
    await expect(guarded.write(early, insert('stale'))).rejects.toThrow('got 10')
  })

  it('does not make writers of different files wait for each other', async () => {
    const guarded = guard.postgres(pool)
    const [one, two] = [lease(10, 'file:/r/a'), lease(20, 'file:/r/b')]
    await guarded.write(one, insert('a'))
    await guarded.write(two, insert('b'))
    const [entered, finish] = [gate(), gate()]
    const slow = guarded.write(one, async () => {
      entered.open()
      await finish.opened
    })
    await entered.opened
    await guarded.write(two, insert('c'))
    finish.open()
    await slow
    expect(await values()).toEqual(['a', 'b', 'c'])
  })

  it('finishes when many write the same tree for the first time at once', async () => {
    const guarded = guard.postgres(pool)
    const writes = Array.from({ length: 40 }, (_, index) => {
      return guarded.write(lease(100 + index, `file:/r/d${index % 5}/f${index}`), insert('x'))
    })
    await Promise.all(writes)
    expect(await values()).toHaveLength(40)
  })

  it('names what it cannot reach', async () => {
    const away = new pg.Pool({ connectionString: 'postgres://nobody@127.0.0.1:1/none' })
    const error: unknown = await guard
      .postgres(away)
      .write(lease(1), insert('a'))
      .catch((reason: unknown) => reason)
    expect(isLeaseError(error) && error.code).toBe('STORE_UNAVAILABLE')
    await away.end()
    for (const [odd, shown] of [
      [null, 'null'],
      ['postgres://', '"postgres://"'],
    ]) {
      expect(() => guard.postgres(odd as unknown as pg.Pool)).toThrow(
        `client must be a client or pool of PostgreSQL, got ${shown}`,
      )
    }
  })

  it('has its table created in turns', async () => {
    await using client = await connected()
    await pool.query('DROP TABLE tenure_fences')
    await client.own.query('BEGIN')
    await guard.postgres(client.own).init()
    const other = guard.postgres(pool).init()
    await expect.poll(waiting).toBe(1)
    await client.own.query('COMMIT')
    await other
    expect(await guard.postgres(pool).check('work:W', 10)).toBe(true)
  })
})

/** Connections that wait for a lock of another. */
async function waiting(): Promise<number> {
  const { rows } = await pool.query<{ count: string }>(
    `SELECT count(*) FROM pg_stat_activity
     WHERE datname = current_database() AND wait_event_type = 'Lock'`,
  )
  return Number(rows[0]?.count)
}
