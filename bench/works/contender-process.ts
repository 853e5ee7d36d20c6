/** One of several processes whose workers want the same resource. Its parent tells it what to do, message by message. */
import { contend, type ContendOptions } from '../measure/contend.ts'
import type { Turns } from '../measure/turns.ts'
import { messageOf } from '../result.ts'
import type { OpenSystem, Place, StoreName } from '../system.ts'
import { systemNamed } from '../systems/all-systems.ts'

export type Order =
  | {
      readonly kind: 'open'
      readonly store: StoreName
      readonly system: string
      readonly place: Place
      readonly workers: number
    }
  | { readonly kind: 'contend'; readonly system: string; readonly options: ContendOptions }
  | { readonly kind: 'close'; readonly system: string }

export type Reply =
  | { readonly kind: 'done'; readonly turns: Turns | null }
  | { readonly kind: 'failed'; readonly error: string }

const open = new Map<string, OpenSystem>()

async function obey(order: Order): Promise<Turns | null> {
  const system = open.get(order.system)
  switch (order.kind) {
    case 'open': {
      const made = await systemNamed(order.store, order.system).open(order.place, order.workers)
      open.set(order.system, made)
      return null
    }
    case 'contend':
      if (system === undefined) throw new Error(`${order.system} is not open`)
      return contend(system, order.options)
    case 'close':
      open.delete(order.system)
      await system?.close()
      return null
  }
}

process.on('message', (order: Order) => {
  obey(order).then(
    (turns) => process.send?.({ kind: 'done', turns } satisfies Reply),
    (error: unknown) => process.send?.({ kind: 'failed', error: messageOf(error) } satisfies Reply),
  )
})
process.once('disconnect', () => process.exit(0))
