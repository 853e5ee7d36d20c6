/** Waits for all of them, and only then fails if one did: nobody may go on into the turn of the next system. */
export async function allDone<Result>(work: readonly Promise<Result>[]): Promise<Result[]> {
  await Promise.allSettled(work)
  return Promise.all(work)
}
