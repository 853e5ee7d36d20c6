/** When work runs that is put off to the end of a turn. */
import { expect, it } from 'vitest'
import { afterTurn } from '../../src/runtime/system-runtime.ts'

async function hops(count: number): Promise<void> {
  for (let hop = 0; hop < count; hop += 1) await Promise.resolve()
}

/** What happens in one turn that begins with a timer, and when the next one begins. */
function orderOf(turn: (note: (what: string) => void) => void): Promise<readonly string[]> {
  return new Promise((resolve) => {
    setTimeout(() => {
      const order: string[] = []
      turn((what) => order.push(what))
      setImmediate(() => resolve(order))
    }, 0)
  })
}

it('is after all promises that need not wait, and before the process looks for input', async () => {
  const order = await orderOf((note) => {
    afterTurn(() => note('work'))
    void hops(20).then(() => note('promises'))
  })
  expect(order).toEqual(['promises', 'work'])
})

it('is the same for work that a promise asks for', async () => {
  const order = await orderOf((note) => {
    void hops(1).then(() => afterTurn(() => note('work')))
    void hops(20).then(() => note('promises'))
  })
  expect(order).toEqual(['promises', 'work'])
})
