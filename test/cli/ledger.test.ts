import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { workshop, type Workshop } from './tenure-process.ts'

interface Verdict {
  readonly ok: boolean
  readonly sealed: number
  readonly first: { readonly line: number } | null
  readonly copy: string | null
  readonly store: { readonly first: { readonly problem: string } | null } | null
}

/** A store with four events and a checkpoint over them. */
async function sealedWorkshop(): Promise<Workshop & { readonly events: string }> {
  const shop = workshop()
  const keys = ['--keys', 'keys.json']
  await shop.json(['keys', 'generate', ...keys])
  await shop.json(['acquire', 'work:a', '--holder', 'ada', '--ttl', '1h'])
  await shop.json(['acquire', 'work:b', '--holder', 'bob', '--ttl', '1h'])
  await shop.json(['release', 'work:a', '--holder', 'ada'])
  await shop.json(['acquire', 'work:a', '--holder', 'cyd', '--ttl', '1h'])
  await shop.json(['ledger', 'seal', ...keys, '--copy', 'copy.ndjson'])
  return { ...shop, events: path.join(`${shop.storeFile}.ledger`, 'events.ndjson') }
}

async function verdictOf(
  shop: Workshop,
  ...more: readonly string[]
): Promise<Verdict & { code: number | null }> {
  const words = ['ledger', 'verify', '--keys', 'keys.json', '--json', ...more]
  const { code, stdout, stderr } = await shop.hosted(words)
  if (stdout === '') throw new Error(stderr)
  return { code, ...(JSON.parse(stdout) as Verdict) }
}

describe('tenure ledger', () => {
  it('proves a ledger that nobody touched, before and after it has grown', async () => {
    const shop = await sealedWorkshop()
    expect(await verdictOf(shop, '--copy', 'copy.ndjson')).toMatchObject({
      code: 0,
      ok: true,
      sealed: 4,
    })
    await shop.json(['release', 'work:b', '--holder', 'bob'])
    expect(await verdictOf(shop)).toMatchObject({ code: 0, ok: true, sealed: 4 })
    await shop.json(['ledger', 'seal', '--keys', 'keys.json'])
    expect(await verdictOf(shop)).toMatchObject({ code: 0, ok: true, sealed: 5 })
  })

  it('finds a change of a sealed line and of the store, and exits with 1', async () => {
    const shop = await sealedWorkshop()
    const text = fs.readFileSync(shop.events, 'utf8')
    fs.writeFileSync(shop.events, text.replace('"holder":"bob"', '"holder":"eve"'))
    expect(await verdictOf(shop)).toMatchObject({ code: 1, ok: false, first: { line: 2 } })
    const refused = await shop.tenure(['ledger', 'seal', '--keys', 'keys.json'])
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('got line 2')])
    fs.writeFileSync(shop.events, text)
    await shop.sql("UPDATE lease_history SET agent_id = 'eve' WHERE agent_id = 'bob'")
    expect(await verdictOf(shop)).toMatchObject({
      code: 1,
      ok: false,
      store: { first: { position: '2', problem: 'altered' } },
    })
  })

  it('finds a lease that was given to another behind the back of the store, or taken away', async () => {
    const shop = await sealedWorkshop()
    await shop.sql("UPDATE live_leases SET agent_id = 'mallory' WHERE agent_id = 'bob'")
    const found = await shop.tenure(['ledger', 'verify', '--keys', 'keys.json'])
    expect([found.code, found.stdout]).toEqual([
      1,
      expect.stringMatching(/keeps lease \S{36} otherwise than its events tell/),
    ])
    await shop.sql("UPDATE live_leases SET agent_id = 'bob' WHERE agent_id = 'mallory'")
    expect(await verdictOf(shop)).toMatchObject({ code: 0, store: { oddLease: null } })
    const created = "data ->> '$.ended.body.createdAtMs'"
    for (const [table, row, change, back] of [
      ['live_leases', "agent_id = 'bob'", "status = 'released'", "status = 'active'"],
      [
        ...['lease_history', "event_type = 'released'"],
        `data = json_set(data, '$.ended.state', 'revoked')`,
        `data = json_remove(data, '$.ended.state')`,
      ],
      [
        ...['lease_history', "event_type = 'released'"],
        `data = json_set(data, '$.ended.body.createdAtMs', (${created}) + 1)`,
        `data = json_set(data, '$.ended.body.createdAtMs', (${created}) - 1)`,
      ],
    ]) {
      await shop.sql(`UPDATE ${table} SET ${change} WHERE ${row}`)
      expect(await verdictOf(shop), change).toMatchObject({ code: 1, ok: false, first: null })
      await shop.sql(`UPDATE ${table} SET ${back} WHERE ${row}`)
    }
    expect(await verdictOf(shop)).toMatchObject({ code: 0, store: { oddLease: null } })
    await shop.sql("DELETE FROM live_leases WHERE agent_id = 'bob'")
    expect(await verdictOf(shop)).toMatchObject({ code: 1, ok: false, first: null })
  })

  it('finds a live lease that was made free in the table, and the second holder that then came', async () => {
    const shop = await sealedWorkshop()
    await shop.sql("DELETE FROM live_leases WHERE agent_id = 'bob'")
    const free = await shop.hosted(['ledger', 'verify', '--keys', 'keys.json'])
    expect([free.code, free.stdout]).toEqual([
      1,
      expect.stringMatching(/keeps lease \S{36} otherwise than its events tell/),
    ])
    await shop.json(['acquire', 'work:b', '--holder', 'eve', '--ttl', '1h'])
    const both = await shop.hosted(['ledger', 'verify', '--keys', 'keys.json'])
    expect([both.code, both.stdout]).toEqual([
      1,
      'the events of the store contradict each other: lease.issued at position 5 does not follow: work:b is held by another\n',
    ])
    const sealed = await shop.hosted(['ledger', 'seal', '--keys', 'keys.json'])
    expect([sealed.code, sealed.stderr]).toEqual([
      2,
      expect.stringContaining('work:b is held by another'),
    ])
    expect(fs.readFileSync(shop.events, 'utf8').trimEnd().split('\n')).toHaveLength(4)
  })

  it('finds the rows of an ended lease that are gone before retention would have pruned them', async () => {
    const shop = await sealedWorkshop()
    await shop.sql("DELETE FROM lease_history WHERE agent_id = 'ada'")
    const found = await shop.tenure(['ledger', 'verify', '--keys', 'keys.json'])
    expect([found.code, found.stdout]).toEqual([
      1,
      expect.stringMatching(
        /^the store differs from what was sealed: position 1 that was removed, which retention keeps until \d{4}-\S+Z \(--retention DAYS if it was shorter for a while\)\n$/,
      ),
    ])
    const refused = await shop.hosted(['ledger', 'seal', '--keys', 'keys.json'])
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringContaining('retention keeps until'),
    ])
    // The history remembers requests for a day, however short the retention.
    expect((await verdictOf(shop, '--retention', '0')).code).toBe(1)
    // It had ended while history was kept, so that switching it off takes nothing away.
    await shop.json(['config', 'set', 'keep_history', 'false'])
    expect((await verdictOf(shop)).code).toBe(1)
  })

  it('takes for pruned what was live when it was sealed, and ended where no history is kept', async () => {
    const shop = workshop()
    await shop.json(['keys', 'generate', '--keys', 'keys.json'])
    await shop.json(['acquire', 'work:a', '--holder', 'ada', '--ttl', '1h'])
    await shop.json(['acquire', 'work:b', '--holder', 'bob', '--ttl', '1h'])
    await shop.json(['release', 'work:b', '--holder', 'bob'])
    await shop.json(['ledger', 'seal', '--keys', 'keys.json'])
    await shop.json(['config', 'set', 'keep_history', 'false'])
    await shop.json(['release', 'work:a', '--holder', 'ada'])
    expect(await verdictOf(shop)).toMatchObject({ code: 0, store: { prunedLeases: 1 } })
  })

  it('takes for pruned what the retention has pruned, also one that was shorter for a while', async () => {
    const shop = workshop()
    const keys = ['--keys', 'keys.json']
    await shop.json(['keys', 'generate', ...keys])
    await shop.json(['acquire', 'work:a', '--holder', 'ada', '--ttl', '1h'])
    await shop.json(['release', 'work:a', '--holder', 'ada'])
    const ago = 2 * 86_400_000
    const earlier = (time: string): string => `'$.${time}', (data ->> '$.${time}') - ${ago}`
    await shop.sql(
      `UPDATE lease_history SET event_at = event_at - ${ago}, ended_at = ended_at - ${ago},
         data = CASE event_type
           WHEN 'acquired' THEN json_set(data, ${earlier('entry.body.createdAtMs')})
           ELSE json_set(data, ${earlier('ended.body.createdAtMs')},
             ${earlier('ended.body.terminatedAtMs')}) END`,
    )
    await shop.json(['ledger', 'seal', ...keys])
    await shop.json(['config', 'set', 'history_retention_days', '1'])
    expect(await shop.json(['cleanup'])).toMatchObject({ prunedLeases: 1 })
    expect(await verdictOf(shop)).toMatchObject({ code: 0, store: { prunedLeases: 1 } })
    await shop.json(['config', 'set', 'history_retention_days', '30'])
    expect(await verdictOf(shop)).toMatchObject({ code: 1, store: { first: { position: '1' } } })
    const least = ['--retention', '1']
    expect(await verdictOf(shop, ...least)).toMatchObject({ code: 0, store: { prunedLeases: 1 } })
    await shop.json(['ledger', 'seal', ...keys, ...least])
  })

  it('names the command that makes a key where there is none to seal with', async () => {
    const shop = workshop()
    await shop.json(['acquire', 'work:a', '--holder', 'ada'])
    const { code, stderr } = await shop.hosted(['ledger', 'seal', '--keys', 'keys.json'])
    expect([code, stderr]).toEqual([
      2,
      'tenure: there is no key that signs; make one with: tenure keys generate (MISSING_SIGNATURE)\n',
    ])
  })

  it('counts one event as one, and names no position where a rotation of keys has none', async () => {
    const shop = workshop()
    const keys = ['--keys', 'keys.json']
    await shop.json(['keys', 'generate', ...keys])
    await shop.json(['acquire', 'work:a', '--holder', 'ada', '--ttl', '1h'])
    await shop.json(['ledger', 'seal', ...keys])
    const { stdout } = await shop.hosted(['ledger', 'verify', ...keys])
    expect(stdout).toMatch(/^1 event is as it was sealed by /)
    await shop.json(['keys', 'rotate', ...keys, '--overlap', '0s'])
    await shop.json(['ledger', 'seal', ...keys])
    const file = path.join(`${shop.storeFile}.ledger`, 'events.ndjson')
    const text = fs.readFileSync(file, 'utf8')
    const swap = (_: string, first: string): string => `"byOld":"${first === '_' ? '-' : '_'}`
    fs.writeFileSync(file, text.replace(/"byOld":"(.)/, swap))
    const changed = await shop.hosted(['ledger', 'verify', ...keys])
    expect([changed.code, changed.stdout]).toEqual([
      1,
      expect.stringMatching(/^line 2 \(a rotation of keys\) /),
    ])
  })

  it('finds by the copy that ledger and checkpoints were cut short together', async () => {
    const shop = await sealedWorkshop()
    await shop.json(['release', 'work:b', '--holder', 'bob'])
    await shop.json(['ledger', 'seal', '--keys', 'keys.json', '--copy', 'copy.ndjson'])
    for (const [name, keep] of [
      ['events', 4],
      ['checkpoints', 1],
    ] as const) {
      const file = path.join(`${shop.storeFile}.ledger`, `${name}.ndjson`)
      const lines = fs.readFileSync(file, 'utf8').split('\n').slice(0, keep)
      fs.writeFileSync(file, `${lines.join('\n')}\n`)
    }
    expect(await verdictOf(shop)).toMatchObject({ code: 0, ok: true })
    const found = await verdictOf(shop, '--copy', 'copy.ndjson')
    expect(found).toMatchObject({ code: 1, copy: 'checkpoint 2 of the copy is not in the ledger' })
  })

  it('is not satisfied by a copy that is missing, empty, or cannot be read', async () => {
    const shop = await sealedWorkshop()
    const copy = path.join(shop.directory, 'other.ndjson')
    const words = ['ledger', 'verify', '--keys', 'keys.json', '--copy', 'other.ndjson']
    const missing = await shop.tenure(words)
    expect([missing.code, missing.stderr]).toEqual([2, expect.stringContaining('must be a file')])
    fs.writeFileSync(copy, '')
    const empty = await shop.tenure(words)
    expect([empty.code, empty.stderr]).toEqual([
      2,
      expect.stringContaining('copy must have a checkpoint, got none'),
    ])
    fs.writeFileSync(copy, 'nonsense\n')
    const found = await verdictOf(shop, '--copy', 'other.ndjson')
    expect(found).toMatchObject({ code: 1, ok: false })
    expect(found.copy).toContain(`line 1 of ${copy}`)
  })

  it('names the checkpoint that cannot be read, and the line that only looks like one', async () => {
    const shop = await sealedWorkshop()
    const file = path.join(`${shop.storeFile}.ledger`, 'checkpoints.ndjson')
    const text = fs.readFileSync(file, 'utf8')
    fs.writeFileSync(file, `${text}{"sequence":2}\n`)
    const found = await shop.tenure(['ledger', 'verify', '--keys', 'keys.json'])
    expect([found.code, found.stdout]).toEqual([1, expect.stringContaining(`line 2 of ${file}`)])
    const refused = await shop.tenure(['ledger', 'seal', '--keys', 'keys.json'])
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('checkpoint 2')])
    fs.writeFileSync(file, text)
    const events = fs.readFileSync(shop.events, 'utf8')
    fs.writeFileSync(shop.events, events.replace('"realm":"', '"realm":"\\q'))
    expect(await verdictOf(shop)).toMatchObject({ code: 1, ok: false, first: { line: 1 } })
  })

  it('tells from the sealed ledger what the store no longer knows', async () => {
    const shop = await sealedWorkshop()
    await shop.sql("DELETE FROM lease_history WHERE agent_id = 'ada'")
    const directory = `${shop.storeFile}.ledger`
    const asked = ['ledger', 'replay', '--since', '1h', '--holder', 'ada']
    expect(await shop.json(asked)).toMatchObject({ holdings: [] })
    const { holdings } = await shop.json<{ readonly holdings: readonly object[] }>([
      ...asked,
      ...['--ledger', directory],
    ])
    expect(holdings).toMatchObject([{ holder: 'ada', end: 'released' }])
    fs.appendFileSync(shop.events, 'nonsense\n')
    const bad = await shop.tenure([...asked, '--ledger', directory])
    expect([bad.code, bad.stderr]).toEqual([2, expect.stringContaining('line 5 that is no event')])
  })

  it('makes no store of the one that it is to verify', async () => {
    const shop = await sealedWorkshop()
    const none = path.join(shop.directory, 'none.db')
    const ended = await shop.tenure([
      ...['ledger', 'verify', '--keys', 'keys.json', '--store', `sqlite:${none}`],
      ...['--ledger', `${shop.storeFile}.ledger`],
    ])
    expect([ended.code, ended.stderr]).toEqual([15, expect.stringContaining('no store at')])
    expect(fs.existsSync(none)).toBe(false)
  })

  it('goes on after a writer that died in the middle of a line', async () => {
    const shop = await sealedWorkshop()
    fs.appendFileSync(shop.events, '{"n":5,"posi')
    await shop.json(['release', 'work:b', '--holder', 'bob'])
    await shop.json(['ledger', 'seal', '--keys', 'keys.json'])
    expect(await verdictOf(shop)).toMatchObject({ code: 0, ok: true, sealed: 5 })
  })

  it('seals by itself at an interval, and goes on after one that was killed', async () => {
    const shop = workshop()
    const keys = ['--keys', 'keys.json']
    await shop.json(['keys', 'generate', ...keys])
    const sealing = shop.start(['ledger', 'seal', ...keys, '--every', '100ms'])
    await sealing.says('over 0 events')
    await shop.json(['acquire', 'work:a', '--holder', 'ada', '--ttl', '1h'])
    await sealing.says('over 1 event of 1 realm')
    sealing.process.kill('SIGKILL')
    await sealing.ended
    const directory = `${shop.storeFile}.ledger`
    const left = `sealing-${os.hostname()}-${sealing.process.pid}`
    fs.writeFileSync(path.join(directory, left), '')
    await shop.json(['release', 'work:a', '--holder', 'ada'])
    expect(await shop.json(['ledger', 'seal', ...keys])).toMatchObject({ events: 2 })
    expect(fs.readdirSync(directory).toSorted()).toEqual([
      ...['checkpoints.ndjson', 'events.ndjson', 'keys.json'],
    ])
    expect(await verdictOf(shop)).toMatchObject({ code: 0, ok: true, sealed: 2 })
  })

  it('tells of rotated keys, so that whoever has the first one can follow', async () => {
    const shop = await sealedWorkshop()
    const { stdout } = await shop.tenure(['keys', 'export', '--keys', 'keys.json'])
    fs.writeFileSync(path.join(shop.directory, 'first.json'), stdout)
    await shop.json(['keys', 'rotate', '--keys', 'keys.json', '--overlap', '0s'])
    expect(await shop.json(['ledger', 'seal', '--keys', 'keys.json'])).toMatchObject({ events: 5 })
    const words = ['ledger', 'verify', '--keys', 'first.json']
    expect(await shop.json(words)).toMatchObject({ ok: true, sealed: 5, checkpoints: 2 })
    // What lies beside the ledger is public, and can be used as it is.
    const published = path.join(`${shop.storeFile}.ledger`, 'keys.json')
    expect(await shop.json(['ledger', 'verify', '--keys', published])).toMatchObject({ ok: true })
    const text = fs.readFileSync(shop.events, 'utf8')
    fs.writeFileSync(
      shop.events,
      text.replace(/"byOld":"(.)/, (_, first) => `"byOld":"${first === '_' ? '-' : '_'}`),
    )
    expect(await verdictOf(shop)).toMatchObject({ code: 1, first: { line: 5 } })
  })

  it('tells who held what at an instant, and exports every event', async () => {
    const shop = await sealedWorkshop()
    const [first, second] = await shop.json<
      readonly { readonly event: { readonly atMs: number } }[]
    >(['history', '--limit', '10'])
    const replay = (at: number | undefined) => {
      return shop.json<{ readonly leases: readonly { readonly holder: string }[] }>([
        'ledger',
        'replay',
        '--at',
        String(at),
      ])
    }
    const at = async (ms: number | undefined) => {
      return (await replay(ms)).leases.map(({ holder }) => holder).toSorted()
    }
    expect(await at((first?.event.atMs ?? 0) - 1)).toEqual([])
    expect(await at(second?.event.atMs)).toEqual(['ada', 'bob'])
    expect(await at(Date.now())).toEqual(['bob', 'cyd'])
    const since = String(second?.event.atMs)
    const { holdings } = await shop.json<{ readonly holdings: readonly object[] }>([
      ...['ledger', 'replay', 'work:a', '--since', since],
    ])
    expect(holdings).toMatchObject([
      { holder: 'ada', end: 'released', releaseReason: 'voluntary' },
      { holder: 'cyd', end: 'active', toMs: null },
    ])
    const { stdout } = await shop.tenure(['ledger', 'export'])
    expect(stdout).toBe(fs.readFileSync(shop.events, 'utf8'))
  })

  it('tells who held a file by its directory, and who holds on without a word of it', async () => {
    const shop = workshop()
    await shop.json(['config', 'set', 'record_renewals', 'false'])
    await shop.json(['acquire', 'src/', '--holder', 'ada', '--ttl', '60s'])
    await shop.json(['renew', 'src/', '--holder', 'ada', '--ttl', '1h'])
    interface Issued {
      readonly event: { readonly lease: { readonly expiresAtMs: number } }
    }
    const [issued] = await shop.json<readonly Issued[]>(['history', '--limit', '1'])
    const afterMs = String((issued?.event.lease.expiresAtMs ?? 0) + 5)
    const asked = ['ledger', 'replay', 'src/deep/app.ts', '--at', afterMs]
    expect(await shop.json(asked)).toMatchObject({ leases: [{ holder: 'ada', state: 'active' }] })
    const other = ['ledger', 'replay', 'srcs/app.ts', '--at', afterMs]
    expect(await shop.json(other)).toMatchObject({ leases: [] })
  })

  it('rebuilds an empty store from what was exported, with the same digest', async () => {
    const shop = await sealedWorkshop()
    const file = path.join(shop.directory, 'ledger.ndjson')
    fs.writeFileSync(file, (await shop.tenure(['ledger', 'export'])).stdout)
    const elsewhere = ['--store', `sqlite:${path.join(shop.directory, 'other.db')}`]
    const imported = await shop.json<{ digest: string }>([
      ...['ledger', 'import', 'ledger.ndjson', ...elsewhere],
    ])
    expect(imported).toMatchObject({ events: 4 })
    const digests = [
      await shop.json(['ledger', 'digest']),
      await shop.json(['ledger', 'digest', ...elsewhere]),
    ]
    const { digest } = imported
    expect(digests).toEqual([
      { events: 4, leases: 3, digest },
      { events: 4, leases: 3, digest },
    ])
    // On the clock of the same host what was held is held on.
    const listed = await shop.json<{ leases: readonly { holder: string }[] }>(['ls', ...elsewhere])
    expect(listed.leases.map(({ holder }) => holder).toSorted()).toEqual(['bob', 'cyd'])
    fs.appendFileSync(file, 'nonsense\n')
    const bad = await shop.tenure(['ledger', 'import', 'ledger.ndjson', ...elsewhere])
    expect([bad.code, bad.stderr]).toEqual([2, expect.stringContaining('line 5')])
  })

  it('refuses in one line what it cannot do', async () => {
    const { tenure, json } = workshop()
    await json(['keys', 'generate', '--keys', 'keys.json'])
    const sealWith = ['ledger', 'seal', '--keys', 'keys.json']
    for (const [words, said] of [
      [[...sealWith, '--copy', '/nonexistent/copy'], 'file must be usable, got /nonexistent/copy'],
      [[...sealWith, '--ledger', '/dev/null/x'], 'file must be usable, got /dev/null/x'],
      [['ledger', 'replay', '--at', '1h', '--every', '5s'], 'every must not be given to ledger'],
      [['ledger', 'export', '--copy', 'c'], 'copy must not be given to ledger export'],
      [['ledger', 'replay', '--at', '1h', '--ledger', 'none'], 'ledger must have events'],
      [['ledger', 'melt'], 'ACTION must be one of seal, verify, replay, export, import, digest'],
      [['ledger', 'verify', 'more'], 'must be followed by nothing'],
      [['ledger', 'verify', '--keys', 'k'], 'must have a checkpoint, got none'],
      [['ledger', 'import'], 'ledger import must be followed by FILE'],
      [['ledger', 'import', 'none.ndjson'], 'file must be usable'],
      [['ledger', 'replay'], 'at must be given, or since'],
      [['ledger', 'replay', '--at', '1h', '--since', '1h'], 'at must not be given beside since'],
      [['ledger', 'replay', '--since', '1h', '--until', '2h'], 'until must not be before since'],
      [['ledger', 'replay', '--at', '25:00'], 'at must be a time such as'],
      [['ledger', 'seal', '--keys', 'k'], 'no key that signs'],
      [['ledger', 'seal', '--store', 'memory:', '--keys', 'k'], 'must be given for a store'],
    ] as const) {
      const { code, stderr } = await tenure(words)
      expect([code, stderr]).toEqual([2, expect.stringContaining(said)])
      expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    }
  })
})
