/** What keeps a process alive: work under a lease and a wait do, a lease that is merely held does not, on any store. */
import { describe, expect, it } from 'vitest'
import { startProgram, type Ended } from '../cli/tenure-process.ts'
import { EVERY_STORE, freshStoreOf } from '../servers/every-store.ts'

const LIBRARY = new URL('../../dist/index.js', import.meta.url).href

/** A program as somebody writes it who never closes the client. */
function program(url: string, lines: string): Promise<Ended> {
  const source = `
    import { openTenure } from ${JSON.stringify(LIBRARY)}
    const tenure = await openTenure(${JSON.stringify(url)}, { holder: 'ann' })
    // Keeps nothing alive itself: it runs only if something else does.
    const later = (work) => void setTimeout(work, 300).unref()
    ${lines}`
  return startProgram([process.execPath, '--input-type=module', '-e', source]).ended
}

describe.each(EVERY_STORE)('a process on %s', (kind) => {
  it('lives as long as work under a lease, which may only wait for the loss', async () => {
    const lines = `
      const lost = (signal) => new Promise((resolve) => signal.addEventListener('abort', resolve))
      const work = tenure.withLease('work:A', { ttlMs: 60_000 }, async (lease) => {
        later(() => tenure.revoke(lease.id))
        await lost(lease.signal)
        console.log('lost')
      })
      await work.catch((error) => console.log(error.code))`
    const ended = await program(await freshStoreOf(kind), lines)
    expect(ended).toEqual({ code: 0, stdout: 'lost\nLEASE_LOST\n', stderr: '' })
  })

  it('lives as long as a wait', async () => {
    const lines = `
      const held = await tenure.acquire('work:A')
      later(() => held.release())
      const lease = await tenure.acquire('work:A', { waitMs: Infinity })
      console.log(lease.state)`
    const ended = await program(await freshStoreOf(kind), lines)
    expect(ended).toEqual({ code: 0, stdout: 'held\n', stderr: '' })
  })

  it('ends although it holds a lease, has waited for it and watches it', async () => {
    const lines = `
      const other = await openTenure(${JSON.stringify(await freshStoreOf(kind))}, { holder: 'bob' })
      const first = await other.acquire('work:A')
      setTimeout(() => first.release(), 50)
      const lease = await other.acquire('work:A', { waitMs: Infinity })
      lease.on('lost', () => undefined)
      console.log(lease.state)`
    const ended = await program(await freshStoreOf(kind), lines)
    expect(ended).toEqual({ code: 0, stdout: 'held\n', stderr: '' })
  })
})
