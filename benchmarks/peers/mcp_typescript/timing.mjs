// The two ways calls are measured. benchmarks/timing.py has the same.
const LEAST = 10;
const now = () => performance.now() / 1e3;

export async function oneAtATime(call, seconds) {
  await call();
  const times = [];
  const end = now() + seconds;
  let began = 0;
  while (began < end || times.length < LEAST) {
    began = now();
    await call();
    times.push(now() - began);
  }
  return times;
}

export async function inFlight(call, width, seconds) {
  let answered = 0;
  const began = now();
  const end = began + seconds;
  async function caller() {
    while (now() < end) {
      await call();
      answered += 1;
    }
  }
  await Promise.all(Array.from({ length: width }, caller));
  return answered / (now() - began);
}
