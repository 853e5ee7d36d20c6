/** What a program hears of an open client: faults of the background, and every call on a tracing channel of Node. */
import { channel, tracingChannel } from 'node:diagnostics_channel'
import fs from 'node:fs'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'
import type { Tenure } from '../../src/client/contract.ts'
import { FAULT_CHANNEL, onFault, openApi, openTenure, type Fault } from '../../src/index.ts'
import { report } from '../../src/runtime/diagnostics.ts'
import { CALL_NAMES, type CallTrace } from '../../src/service/traced-api.ts'

const opened: { close(): Promise<void> }[] = []

afterEach(async () => {
  await Promise.all(opened.splice(0).map((one) => one.close()))
})

async function open(onDiagnostic?: (fault: Fault) => void): Promise<Tenure> {
  const listening = onDiagnostic === undefined ? {} : { onDiagnostic }
  const tenure = await openTenure('memory:', { holder: 'ann', ...listening })
  opened.push(tenure)
  return tenure
}

describe('onDiagnostic', () => {
  it('hears what fails in the background until the client is closed', async () => {
    const faults: Fault[] = []
    const tenure = await open((fault) => faults.push(fault))
    const error = new Error('away')
    report('store/redis/subscribe', error)
    await tenure.close()
    report('store/redis/subscribe', error)
    expect(faults).toEqual([{ source: 'store/redis/subscribe', error, count: 1 }])
    expect(channel(FAULT_CHANNEL).hasSubscribers).toBe(false)
  })

  it('of two clients is told by each until that one is closed', async () => {
    const [first, second]: [Fault[], Fault[]] = [[], []]
    const [one] = [await open((fault) => first.push(fault)), await open((f) => second.push(f))]
    await one.close()
    report('client/renewal', 'why')
    expect([first.length, second.length]).toEqual([0, 1])
  })

  it('is an option of openApi as well', async () => {
    const faults: Fault[] = []
    const api = await openApi('memory:', { onDiagnostic: (fault) => faults.push(fault) })
    report('service/sweep', 'why')
    await api.close()
    report('service/sweep', 'why')
    expect(faults).toHaveLength(1)
  })

  it('hears nothing more of a store that could not be opened', async () => {
    const onDiagnostic = (): void => undefined
    const opening = openTenure('sqlite:/dev/null/none.db', { holder: 'ann', onDiagnostic })
    await expect(opening).rejects.toThrow()
    expect(channel(FAULT_CHANNEL).hasSubscribers).toBe(false)
  })

  it('must be a function', async () => {
    const onDiagnostic = 'console.log' as never
    await expect(openTenure('memory:', { holder: 'ann', onDiagnostic })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: 'onDiagnostic must be a function, got "console.log"',
    })
  })

  it('is for one client; onFault hears the whole process', () => {
    const faults: Fault[] = []
    const stop = onFault((fault) => faults.push(fault))
    report('fleet/handover', 'why')
    stop()
    report('fleet/handover', 'why')
    expect(faults).toEqual([{ source: 'fleet/handover', error: 'why', count: 1 }])
  })
})

type Phase = 'start' | 'end' | 'asyncStart' | 'asyncEnd' | 'error'

/** What is published about one call from now on, until the test is over. */
function traced(call: string): [Phase, CallTrace][] {
  const messages: [Phase, CallTrace][] = []
  const note =
    (phase: Phase) =>
    (message: unknown): void => {
      messages.push([phase, { ...(message as CallTrace) }])
    }
  const subscribers = {
    start: note('start'),
    end: note('end'),
    asyncStart: note('asyncStart'),
    asyncEnd: note('asyncEnd'),
    error: note('error'),
  }
  const channels = tracingChannel(`tenure:${call}`)
  channels.subscribe(subscribers)
  onTestFinished(() => channels.unsubscribe(subscribers))
  return messages
}

describe('a call', () => {
  it('is published when it is made and when it is answered', async () => {
    const messages = traced('acquire')
    const lease = await (await open()).acquire('work:W-1')
    expect(messages.map(([phase]) => phase)).toEqual(['start', 'end', 'asyncStart', 'asyncEnd'])
    const [, asked] = messages[0] ?? []
    const subject = { leaseId: lease.id, resource: 'work:W-1', holder: 'ann' }
    expect(asked).toEqual({ call: 'acquire', store: 'memory:', ...subject })
    const [, answered] = messages[3] ?? []
    expect(answered).toMatchObject({ ...subject, result: { kind: 'granted' } })
  })

  it('that throws is published with its error, and throws', async () => {
    const messages = traced('get')
    const api = await openApi('memory:')
    opened.push(api)
    const failing = api.get({ id: 'no id' })
    await expect(failing).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    const failed = messages.find(([phase]) => phase === 'error')
    expect(failed?.[1]).toMatchObject({ call: 'get', leaseId: 'no id' })
    expect(failed?.[1].error).toBe(await failing.catch((error: unknown) => error))
  })

  it('that is answered at once is published as well', async () => {
    const messages = traced('watch')
    const api = await openApi('memory:')
    opened.push(api)
    expect(Symbol.asyncIterator in api.watch({})).toBe(true)
    expect(messages.map(([phase]) => phase)).toEqual(['start', 'end'])
  })

  it('is not published by its session, which is a secret of its client', async () => {
    const all = CALL_NAMES.map(traced)
    const tenure = await open()
    const lease = await tenure.acquire('work:W-1')
    await lease.release()
    await tenure.close()
    const asked = all.flat().filter(([phase]) => phase === 'start')
    expect(asked.length).toBeGreaterThan(2)
    expect(JSON.stringify(asked)).not.toContain(tenure.session)
  })

  it('of every name has a channel that the page on diagnostics tells of', () => {
    const page = fs.readFileSync(new URL('../../docs/diagnostics.md', import.meta.url), 'utf8')
    const [, list = ''] = /^Calls: ([^\n]+(?:\n[^\n]+)*)/m.exec(page) ?? []
    const told = [...list.matchAll(/`([a-zA-Z]+)`/g)].map(([, name]) => name)
    expect(new Set(told)).toEqual(new Set(CALL_NAMES))
  })
})
